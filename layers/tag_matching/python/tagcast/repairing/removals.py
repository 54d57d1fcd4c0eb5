"""What the sweep removes: groups that are long silent, queues whose groups are gone, exchanged secrets.

Of groups only what heartbeats made goes by itself; one that somebody put, or changed since, stays until somebody
removes it. The sweep also tells of the last member of a group that was lost.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from tagcast.concurrency.isolation import each
from tagcast.errors import ConditionLostError, NotFoundError, PreconditionFailedError
from tagcast.ids import ordinal_of, topic_id_of
from tagcast.membership import LIVENESS_S, Registration
from tagcast.model import LaneState
from tagcast.ports import GroupQueue, Row, World
from tagcast.registry.directory import directory_of
from tagcast.registry.members import tell_lost
from tagcast.registry.subscriptions import delete_subscription
from tagcast.rows import stored
from tagcast.rows.member import REGISTRATIONS, registration_delete
from tagcast.rows.sealed import EXCHANGE_ROWS, exchange_delete, exchange_rows, formers_removal


async def remove_silent(world: World, ends: float) -> int:
    """Look at every group that heartbeats made until *ends*; return how many subscriptions were removed."""
    rows = await world.executor.run(partial(stored.registration_rows, world.store))

    async def look_at(row: Row) -> bool:
        if world.clock.monotonic() >= ends:
            return False
        return await world.executor.run(partial(_look_at, world, REGISTRATIONS.value_of(row)))

    return sum(await each(world, "a group", rows, look_at))


def _look_at(world: World, registration: Registration) -> bool:
    members = stored.members(world.store, registration.topic, registration.group)
    tell_lost(world, registration.topic, registration.group, members)
    seen_at = max((registration.renewed_at, *(each.seen_at for each in members if registration.is_of(each.client))))
    silence_s = max(registration.silence_s / world.time_scale, 2 * LIVENESS_S)
    if world.clock.now() < seen_at + silence_s * 1000:
        return False
    return _removed(world, registration)


def _removed(world: World, registration: Registration) -> bool:
    """Remove what a heartbeat made, unless somebody changed it since, or joins just now; say whether that was done."""
    forget = registration_delete(registration)
    try:
        delete_subscription(world, registration.topic, registration.subscription, registration.version, (forget,))
    except (NotFoundError, PreconditionFailedError):
        world.store.write(forget)
        return False
    return True


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
    lanes = stored.lanes(world.store, topic)  # Behind the subscriptions: a removed one has a tombstone by now.
    groups = {GroupQueue.of(each) for each in known.by_ordinal.values() if each.settings.is_group}
    return [
        queue
        for queue in queues
        if queue not in groups
        and ordinal_of(queue.subscription_id) < known.topic.next_ordinal
        and not ((lane := lanes.get(queue.subscription_id)) and lane.state is LaneState.REMOVED and lane.wake_at)
    ]


AT_ONCE = 200


async def forget_exchanged(world: World) -> None:
    """Remove the exchanged secrets whose time is over, 200 in one sweep; what is left comes first in the next."""
    read = partial(exchange_rows, world.store, world.clock.now(), AT_ONCE)
    rows = await world.executor.run(read)
    await each(world, "exchanged secrets", rows, lambda row: world.executor.run(partial(_forget, world, row)))


def _forget(world: World, row: Row) -> None:
    listed = EXCHANGE_ROWS.value_of(row)
    with suppress(ConditionLostError):  # They were sealed anew, or went with their subscription.
        world.store.write(formers_removal(listed))
    world.store.write(exchange_delete(listed))
