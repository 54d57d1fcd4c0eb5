"""The end of a removed group's queue: what lies in it is cancelled, then it goes.

See docs/protocol.md, Pull groups.
"""

from __future__ import annotations

from functools import partial

from tagcast.delivery.ending import Conflict, EntryEnd, end_entry_beside
from tagcast.delivery.lane_lease import LaneLease
from tagcast.ids import ordinal_of
from tagcast.model import Entry, EntryState
from tagcast.ports import GroupQueue, Received
from tagcast.queues import RECEIVED_MAX
from tagcast.rows import stored
from tagcast.rows.pulled import last_pull

WAIT_S, INVISIBLE_S = 1, 120
"""A wait asks all servers of the queue; what a worker leaves behind comes to the next one soon."""


async def empty_queue(lease: LaneLease) -> bool:
    """Cancel some of what lies in the queue of a removed group; say whether that was all, and the queue is gone.

    What members lease just now goes with the queue: the search ends it when its life is over.
    """
    queue = lease.lane.queue
    if queue is None:
        return True
    run, queues = lease.world.executor.run, lease.world.group_queues
    received = await run(partial(queues.receive, queue, limit=RECEIVED_MAX, wait_s=WAIT_S, invisible_s=INVISIBLE_S))
    for each in received:
        await _cancel(lease, queue, each)
    if received:
        await run(partial(queues.delete, queue, [each.receipt for each in received]))
        return False
    await run(partial(queues.remove, queue))
    return True


async def _cancel(lease: LaneLease, queue: GroupQueue, received: Received) -> None:
    """Settle one entry as cancelled, after the pulls that it had before this look."""
    ordinal, pulls = ordinal_of(queue.subscription_id), received.times - 1
    world, state = lease.world, EntryState.CANCELLED
    entry = Entry(state)
    if pulls:
        look = partial(stored.pulled, world.store, lease.task.topic, received.message_id)
        known = (await world.executor.run(look)).get(ordinal)
        entry = last_pull(known, pulls, world.clock.now()).ending(state)

    end = EntryEnd(lease.task.topic, received.message_id, ordinal, entry)
    came = await end_entry_beside(world.store, world.executor, end, lambda conflict: lease.wait(conflict.times))
    if isinstance(came, Conflict):
        raise came.error
