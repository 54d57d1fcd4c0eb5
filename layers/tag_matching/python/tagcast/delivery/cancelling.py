"""Cancels the pending deliveries of a deleted subscription, in its backlog and in a group's queue."""

from __future__ import annotations

from collections.abc import Sequence

from tagcast.delivery.ending import end_alone, slices_of
from tagcast.delivery.lease import ENDED_AT_ONCE, Drained, LaneLease
from tagcast.errors import UnavailableError
from tagcast.ids import ordinal_of
from tagcast.model import Entry, EntryState
from tagcast.ports import GroupQueue, ReceivedEntry
from tagcast.queues import RECEIVED_MAX
from tagcast.rows import stored
from tagcast.rows.due import PendingDelivery, last_pull

CANCELLED_AT_ONCE = 33
"""At most 33 deliveries are read together: a request reads three rows for each, and DynamoDB allows 100 rows."""
WAIT_S, VISIBILITY_TIMEOUT_S = 1, 20
"""A receive waits for a second, because only long polling asks all servers of the queue. After a fault, received
entries are visible again after 20 s, before the next worker comes (after 30 s)."""
HELD_S = 60
"""The worker returns every minute while members hold messages of a deleted group, or SQS still counts deleted ones."""


async def cancel(lease: LaneLease, dues: Sequence[PendingDelivery]) -> None:
    """Cancel the deliveries *dues* of a deleted subscription, many in one transaction; delete stale due rows."""
    world, ordinal = lease.world, ordinal_of(lease.task.subscription_id)
    first = {due.message_id: due for due in reversed(dues)}
    rows = await world.executor.run(stored.messages_with, world.store, lease.task.topic, tuple(first), ordinal)
    pending = [(due, due.entry(EntryState.CANCELLED), rows[each]) for each, due in first.items()
            if each in rows and rows[each].map.is_with_lane(ordinal)]  # fmt: skip
    for some in slices_of(pending, ENDED_AT_ONCE):
        if not await lease.end_deliveries(some):
            for due, entry, row in some:
                await lease.end_delivery(due, entry, known=row)
    ended = {id(due) for due, _, _ in pending}
    for due in dues:
        if id(due) not in ended:
            await lease.end_delivery(due, due.entry(EntryState.CANCELLED))


async def empty_queue(lease: LaneLease, queue: GroupQueue) -> Drained:
    """Cancel some deliveries in the queue of a deleted group. Return DONE after the empty queue is deleted.

    Return WAITING if all messages are invisible; the lane then continues later. Otherwise return GOING_ON; the caller
    must call again.
    """
    world, run, queues = lease.world, lease.world.executor.run, lease.world.group_queues
    received = await run(
        queues.receive, queue, limit=RECEIVED_MAX, wait_s=WAIT_S, visibility_timeout_s=VISIBILITY_TIMEOUT_S
    )
    for each in received:
        await _cancel(lease, queue, each)
    if received:
        await run(queues.delete, queue, [each.receipt for each in received])
        return Drained.GOING_ON
    if (await run(queues.counts, queue)).has_any:
        await lease.reschedule(world.clock.now() + round(HELD_S * 1000 / world.time_scale))
        return Drained.WAITING
    await run(queues.remove, queue)
    return Drained.DONE


async def _cancel(lease: LaneLease, queue: GroupQueue, received: ReceivedEntry) -> None:
    """End the delivery of one entry of the group's queue as cancelled. Its earlier pulls count as attempts."""
    ordinal, pulls = ordinal_of(queue.subscription_id), received.times - 1
    world, state, entry = lease.world, EntryState.CANCELLED, Entry(EntryState.CANCELLED)
    if pulls:
        known = await world.executor.run(stored.failed_pulls, world.store, lease.task.topic, received.message_id)
        entry = last_pull(known.get(ordinal), pulls, world.clock.now()).entry(state)
    row = await world.executor.run(stored.message_with, world.store, lease.task.topic, received.message_id, ordinal)
    lost = 0
    while row is not None and ordinal in row.map.pending:
        if await world.executor.run(end_alone, world.store, row, ordinal, entry):
            return
        lost += 1
        if not await lease.wait(lost):
            raise UnavailableError("a delivery of a deleted group could not be cancelled")
        row = await world.executor.run(stored.read_again, world.store, row)
