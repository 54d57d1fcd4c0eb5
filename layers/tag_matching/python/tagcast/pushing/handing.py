"""Handing over to a group: what it is owed goes into its queue, and is owed still until a member acknowledges it.

See docs/architecture.md, Pull groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tagcast.model import Entry, EntryState, Message, Ordering, Outcome, PastAttempt, Subscription
from tagcast.ports import GroupQueue, QueueEntry, World
from tagcast.pushing.attempts import Delivery, Failure, Progress
from tagcast.queues import queue_group
from tagcast.rows import stored

NOT_TAKEN_S = 10
"""So long after its queue took nothing is a group handed anything again."""
NOT_TAKEN = "the group's queue did not take it"


async def hand_over(world: World, group: Subscription, deliveries: Sequence[Delivery]) -> Progress:
    """Send *deliveries* to the queue of *group*, in their order.

    That is no attempt: a pull is. What the queue does not take fails, with as many attempts as it had, since the
    trouble is the service's; it is never discarded for that.
    """
    progress, waiting = Progress(), list[Delivery]()
    for message, made in deliveries:
        if message.is_expired(world.clock.now()):
            progress.settled[message.message_id] = Entry(EntryState.EXPIRED, made)
            world.telemetry.settled(message, group, EntryState.EXPIRED)
        else:
            waiting.append((message, made))
    if not waiting:
        return progress
    entries = await world.executor.run(partial(_entries, world, group, [message for message, _ in waiting]))
    send = partial(world.group_queues.send, GroupQueue.of(group), entries)
    lost = {entry.message_id for entry in await world.executor.run(send)}
    now = world.clock.now()
    for message, made in waiting:
        if message.message_id not in lost:
            progress.handed.add(message.message_id)
        elif not progress.failures:  # Those behind it were not tried, as far as anybody has to know.
            again_at = now + round(NOT_TAKEN_S * 1000 / world.time_scale)
            told = PastAttempt(made, now, 0, NOT_TAKEN)
            progress.failures[message.message_id] = Failure(made, now, Outcome(False, NOT_TAKEN), again_at, told)
    world.telemetry.count("HandedOver", len(progress.handed))
    return progress


def _entries(world: World, group: Subscription, messages: Sequence[Message]) -> list[QueueEntry]:
    """Return the entries of *messages*; only an ordered queue is told their orders."""
    ordering = Ordering.NONE
    if group.settings.ordered and (topic := stored.topic(world.store, group.topic)) is not None:
        ordering = topic.ordering
    return [
        QueueEntry(each.topic, each.message_id, queue_group(ordering, each.topic, each.message_id, each.ordering_key))
        for each in messages
    ]
