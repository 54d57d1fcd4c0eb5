"""Deletions by the sweep: groups that had no heartbeats for long, queues without groups, and expired secrets.

Only groups created by heartbeats are removed automatically. A group that was created or updated explicitly stays until
it is deleted. The sweep also announces the loss of a group's last member.
"""

from __future__ import annotations

from collections.abc import Sequence

from tagcast.concurrency.isolation import at_once, each
from tagcast.errors import ConditionLostError, ContendedError, NotFoundError, PreconditionFailedError
from tagcast.ids import ordinal_of, topic_id_of
from tagcast.membership import LIVENESS_S, Member, Registration
from tagcast.model import LaneState
from tagcast.ports import GroupQueue, Row, World
from tagcast.registry.directory import read_topic
from tagcast.registry.members import FORGOTTEN_AT_ONCE, announce_lost
from tagcast.registry.subscriptions import delete_subscription
from tagcast.rows import stored
from tagcast.rows.member import REGISTRATIONS, member_delete, registration_delete
from tagcast.rows.sealed import EXCHANGE_ROWS, exchange_delete, exchange_rows, formers_removal


async def remove_silent(world: World, ends: float) -> int:
    """Delete groups that heartbeats created, and that got no heartbeat for long, until *ends* (monotonic).

    Returns the number of deleted subscriptions.
    """
    run = world.executor.run
    rows = await run(stored.registration_rows, world.store)
    groups: dict[tuple[str, str], list[Registration]] = {}
    for one in await each(world, "a group", rows, at_once(REGISTRATIONS.value_of)):
        groups.setdefault((one.topic, one.group), []).append(one)

    def members_of(name: tuple[str, str]) -> Sequence[Member]:
        members = stored.members(world.store, *name) if world.clock.monotonic() < ends else ()
        announce_lost(world, *name, members)
        return members

    def look_at(members: Sequence[Member], one: Registration) -> bool:
        its = [each for each in members if one.is_of(each.client)]
        return world.clock.monotonic() < ends and _is_silent(world, one, its) and _remove(world, one, its)

    async def of_group(name: tuple[str, str]) -> int:
        members = await run(members_of, name)
        return sum(await each(world, "a group", groups[name], lambda one: run(look_at, members, one)))

    return sum(await each(world, "a group", groups, of_group))


def _is_silent(world: World, registration: Registration, members: Sequence[Member]) -> bool:
    seen_at = max((registration.renewed_at, *(each.seen_at for each in members)))
    silence_s = max(registration.silence_s / world.time_scale, 2 * LIVENESS_S)
    return world.clock.now() >= seen_at + silence_s * 1000


def _remove(world: World, registration: Registration, members: Sequence[Member]) -> bool:
    """Delete a subscription created by heartbeats, and its silent *members*, which every heartbeat of the group reads.

    Nothing is deleted if the subscription changed or a member joins. Return whether the subscription was deleted.
    """
    topic, forget = registration.topic, registration_delete(registration)
    gone = (member_delete(topic, registration.group, each) for each in members[:FORGOTTEN_AT_ONCE])
    try:
        delete_subscription(world, topic, registration.subscription, registration.version, (forget, *gone))
    except (NotFoundError, PreconditionFailedError):
        world.store.write(forget)
        return False
    return True


async def remove_orphans(world: World) -> int:
    """Delete the empty queues without a group; return the number of deleted queues.

    A queue with messages stays, because the rows of its group were lost, or a worker is emptying the queue.
    """
    run = world.executor.run
    queues = await run(lambda: tuple(world.group_queues.every()))
    if not queues:
        return 0
    topics = {topic_id: name for name, topic_id in await run(stored.topic_ids, world.store)}
    by_topic: dict[str | None, list[GroupQueue]] = {}
    for queue in queues:
        by_topic.setdefault(topics.get(topic_id_of(queue.subscription_id)), []).append(queue)
    gone = await each(world, "the queues of a topic", by_topic.items(), lambda its: run(_orphans, world, *its))
    orphans = [queue for part in gone for queue in part]
    return sum(await each(world, "a queue without a group", orphans, lambda queue: run(_remove_empty, world, queue)))


def _remove_empty(world: World, queue: GroupQueue) -> bool:
    if is_empty := not world.group_queues.counts(queue).has_any:
        world.group_queues.remove(queue)
    return is_empty


def _orphans(world: World, topic: str | None, queues: list[GroupQueue]) -> list[GroupQueue]:
    """Return the *queues* without a group in *topic* (None: deleted topic) that no worker is emptying."""
    if topic is None:
        return queues
    owner = read_topic(world, topic)
    groups = {GroupQueue.of(each) for each in stored.every_subscription(world.store, topic) if each.settings.is_group}
    alone = [each for each in queues if each not in groups]
    # Read after the subscriptions: a deleted one has a tombstone by now.
    lanes = stored.lanes_of(world.store, topic, {each.subscription_id for each in alone})
    return [
        queue
        for queue in alone
        if ordinal_of(queue.subscription_id) < owner.next_ordinal
        and not ((lane := lanes.get(queue.subscription_id)) and lane.state is LaneState.REMOVED and lane.wake_at)
    ]


AT_ONCE = 200


async def forget_exchanged(world: World, ends: float) -> None:
    """Delete expired previous secrets, the earliest first, until *ends* (monotonic)."""
    run, now, after = world.executor.run, world.clock.now(), ""
    while world.clock.monotonic() < ends:
        rows = await run(exchange_rows, world.store, now, after, AT_ONCE)
        await each(world, "exchanged secrets", rows, lambda row: run(_forget, world, row))
        if len(rows) < AT_ONCE:
            break
        after = stored.place(rows[-1])


def _forget(world: World, row: Row) -> None:
    listed = EXCHANGE_ROWS.value_of(row)
    try:
        world.store.write(formers_removal(listed))
    except ContendedError:  # The next sweep deletes them.
        return
    except ConditionLostError:  # They were sealed again, or deleted with their subscription.
        pass
    world.store.write(exchange_delete(listed))
