"""Handing over to a group: what it is owed goes into its queue, and is owed still until a member acknowledges it.

See docs/architecture.md, Pull groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tagcast.model import Message, Ordering, Subscription
from tagcast.ports import GroupQueue, QueueEntry, World
from tagcast.pushing.attempts import Delivery, Progress
from tagcast.pushing.unattempted import alive, put_off
from tagcast.queues import queue_group
from tagcast.rows import stored
from tagcast.settings import HANDED_AT_ONCE

NOT_TAKEN = "the group's queue did not take it"


async def hand_over(world: World, group: Subscription, deliveries: Sequence[Delivery], seconds: float) -> Progress:
    """Send *deliveries* to the queue of *group*, in their order, ten at a time until so many *seconds* are over.

    That is no attempt: a pull is. What the queue does not take fails, with as many attempts as it had, since the
    trouble is the service's; it is never discarded for that. What is not reached is left for later.
    """
    progress, until = Progress(), world.clock.monotonic() + seconds
    waiting = alive(world, group, deliveries, progress, world.clock.now())
    if not waiting:
        return progress
    entries = await world.executor.run(partial(_entries, world, group, [message for message, _ in waiting]))
    for start in range(0, len(waiting), HANDED_AT_ONCE):
        if progress.failures or (start and world.clock.monotonic() >= until):
            break
        end = start + HANDED_AT_ONCE
        send = partial(world.group_queues.send, GroupQueue.of(group), entries[start:end])
        lost = {entry.message_id for entry in await world.executor.run(send)}
        for message, made in waiting[start:end]:
            if message.message_id not in lost:
                progress.handed.add(message.message_id)
            elif not progress.failures:  # Those behind it were not tried, as far as anybody has to know.
                progress.failures[message.message_id] = put_off(world, made, NOT_TAKEN)
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
