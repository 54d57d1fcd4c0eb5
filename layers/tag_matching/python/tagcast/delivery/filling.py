"""Late entries (docs/protocol.md): fills the backlog of a new group with messages accepted before its creation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tagcast.delivery.lease import Drained, LaneLease, StaleWorkerError
from tagcast.errors import ConditionLostError
from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.function_filter import is_function
from tagcast.filters.kinds import compile_filter
from tagcast.model import Subscription
from tagcast.ports import World, Write
from tagcast.pushing.engine import is_matched
from tagcast.rows import stored
from tagcast.rows.due import LATE_POSITION, PendingDelivery, due_put
from tagcast.rows.lane import Filling
from tagcast.rows.listed import kept_id
from tagcast.rows.message import LATE_MAX, MessageRow
from tagcast.rows.message_transitions import late_writes
from tagcast.rows.state_map import AddedLater

ADDED_AT_ONCE = 8
"""A transaction adds 8 late entries. DynamoDB accepts 4 MB, and the row of a message takes at most a tenth of that."""


async def fill(lease: LaneLease) -> Drained:
    """Add the next page of kept messages that match the group's current filter to the backlog.

    A repeated call adds no message twice. Returns WAITING before the filling may begin, else GOING_ON. Raises
    StaleWorkerError if the group was deleted.
    """
    world, group, filling = lease.world, await lease.read_subscription(), lease.lane.filling
    if group is None:
        raise StaleWorkerError
    assert filling is not None
    now = world.clock.now()
    if now < filling.begins_at:
        await lease.reschedule(filling.begins_at)
        return Drained.WAITING
    found = await world.executor.run(
        world.store.find_kept,
        group.topic,
        accepted_from=filling.accepted_from,
        before_version=filling.since,
        alive_at=now,
        cursor=filling.cursor,
    )
    ids = [kept_id(row) for row in found.items]
    filter = compile_filter(group.settings.filter)
    for start in range(0, len(ids), ADDED_AT_ONCE):
        await _add(lease, group, filter, ids[start : start + ADDED_AT_ONCE])
        await lease.renew(0)
    is_over = found.cursor is None
    lease.lane = replace(lease.lane, filling=replace(filling, cursor=found.cursor, is_over=is_over))
    if is_over:
        await lease.acquire(0)
    else:
        await lease.renew(0)
    return Drained.GOING_ON


async def _add(lease: LaneLease, group: Subscription, filter: CompiledFilter, ids: Sequence[str]) -> None:
    """Add the messages *ids* in one transaction. After a conflict, add them one by one, with retries."""
    lost = 0
    while True:  # It ends: with the budget, if nothing else ends it.
        try:
            await _add_together(lease, group, filter, ids)
        except ConditionLostError:
            await lease.verify()
            lost += 1
            if len(ids) == 1 and not await lease.wait(lost):
                raise
        else:
            return
        if len(ids) > 1:
            break
    for message_id in ids:
        await _add(lease, group, filter, (message_id,))


async def _add_together(lease: LaneLease, group: Subscription, filter: CompiledFilter, ids: Sequence[str]) -> None:
    world, filling = lease.world, lease.lane.filling
    assert filling is not None
    rows = await world.executor.run(stored.messages_with, world.store, group.topic, ids, group.ordinal)
    late = [
        row
        for row in rows.values()
        if _is_kept(world, group, filling, row) and is_matched(world, group, filter, row.message)
    ]
    if not late:
        return
    added = AddedLater(world.clock.now(), group.version)
    writes: list[Write] = [lease.check()]
    for row in late:
        due = PendingDelivery(
            subscription_id=group.subscription_id,
            position=LATE_POSITION,
            message_id=row.message.message_id,
            attempts=0,
            expires_at=row.message.expires_at,
            unjudged=is_function(group.settings.filter),
        )
        writes += [*late_writes(row, group.ordinal, added), due_put(due)]
    await world.executor.run(world.store.transact, writes)
    world.telemetry.count("LateEntries", len(late))


def _is_kept(world: World, group: Subscription, filling: Filling, row: MessageRow) -> bool:
    """Return whether a message was accepted without *group* and may still be added.

    A publish that read the topic at version *since* or later matched the message against the group's filter itself.
    """
    message = row.message
    if row.subscriptions_version >= filling.since or message.accepted_at < filling.accepted_from:
        return False
    if not row.has_body or message.is_expired(world.clock.now()):
        return False
    return group.ordinal not in row.map.matched and row.late < LATE_MAX
