"""Queues of groups that are not there: left behind where a group was not stored, or its worker gave up.

A queue is named after its group, whose id is never used again. One with a number that its topic did not give away yet
may be a group's that is being made just now.
"""

from __future__ import annotations

from functools import partial

from tagcast.concurrency.isolation import each
from tagcast.ids import ordinal_of, topic_id_of
from tagcast.model import LaneState
from tagcast.ports import GroupQueue, World
from tagcast.registry.directory import directory_of
from tagcast.rows import stored

TOPICS_AT_ONCE = 100


async def remove_orphans(world: World) -> int:
    """Remove the queues whose groups are gone; return how many."""
    run = world.executor.run
    queues = await run(lambda: tuple(world.group_queues.every()))
    if not queues:
        return 0
    topics = await run(partial(_topics, world))
    by_topic: dict[str | None, list[GroupQueue]] = {}
    for queue in queues:
        by_topic.setdefault(topics.get(topic_id_of(queue.subscription_id)), []).append(queue)
    gone = await each(world, "the queues of a topic", by_topic.items(), lambda its: run(partial(_orphans, world, *its)))
    orphans = [queue for part in gone for queue in part]
    await each(world, "a queue without a group", orphans, lambda queue: run(partial(world.group_queues.remove, queue)))
    return len(orphans)


def _topics(world: World) -> dict[str, str]:
    """Return the names of all topics by their ids."""
    found: dict[str, str] = {}
    names = stored.topic_names(world.store, limit=TOPICS_AT_ONCE)
    while names:
        found |= {topic.topic_id: topic.name for topic in stored.topics(world.store, names)}
        names = stored.topic_names(world.store, after=names[-1], limit=TOPICS_AT_ONCE)
    return found


def _orphans(world: World, topic: str | None, queues: list[GroupQueue]) -> list[GroupQueue]:
    """Return those of *queues* that no group of *topic* has (None: the topic is gone), nor a worker that empties it."""
    if topic is None:
        return queues
    known = directory_of(world, topic)
    lanes = stored.lanes(world.store, topic)  # Behind the subscriptions: whoever is gone has a tombstone by now.
    groups = {GroupQueue.of(each) for each in known.by_ordinal.values() if each.settings.is_group}
    return [
        queue
        for queue in queues
        if queue not in groups
        and ordinal_of(queue.subscription_id) < known.topic.next_ordinal
        and not ((lane := lanes.get(queue.subscription_id)) and lane.state is LaneState.REMOVED and lane.wake_at)
    ]
