"""Finds the group of a member's request, and ends deliveries that were in the group's queue."""

from __future__ import annotations

from contextlib import suppress
from math import ceil

from tagcast.delivery.dead_letter import publish_dead_letter
from tagcast.delivery.ending import TRIES_MAX, end_alone
from tagcast.errors import ConflictError, TableThrottledError, UnavailableError
from tagcast.model import Entry, EntryState, Message, Subscription
from tagcast.ports import GroupQueue, QueueCounts, World
from tagcast.registry.subscriptions import get_subscription
from tagcast.rows import stored
from tagcast.rows.due import FailedPulls, last_pull, pulled_put
from tagcast.rows.message import MessageRow


def group_of(world: World, topic: str, name: str) -> Subscription:
    """Return the group with this *name*.

    Raises NotFoundError (group or topic), or ConflictError if the subscription is not a group.
    """
    found = get_subscription(world, topic, name)
    if not found.settings.is_group:
        raise ConflictError(f"subscription {name} is pushed to; only a group (protocol pull) is pulled from")
    return found


def queue_counts(world: World, subscription: Subscription) -> QueueCounts | None:
    """Return the approximate numbers of messages in a group's queue.

    Return None if *subscription* is not a group, or if the queue does not answer.
    """
    if not subscription.settings.is_group:
        return None
    with suppress(UnavailableError):  # The rest of the group is still shown.
        return world.group_queues.counts(GroupQueue.of(subscription))
    return None


def queue_s(world: World, seconds: float) -> int:
    """Return *seconds* divided by the time scale of *world*, and rounded up, because a queue takes whole seconds."""
    return ceil(seconds / world.time_scale)


def end_pulled(world: World, group: Subscription, row: MessageRow, entry: Entry) -> bool:
    """End the delivery to *group* as *entry*; return whether it was pending.

    *row* is the message, as read while the delivery was pending. After a conflict the message is read again, because
    another writer ended this delivery or closed the message's round. Raises UnavailableError after repeated conflicts.
    """
    known: MessageRow | None = row
    for _ in range(TRIES_MAX):
        if known is None or group.ordinal not in known.map.pending:
            return False
        if end_alone(world.store, known, group.ordinal, entry):
            return True
        known = stored.read_again(world.store, known)
    raise UnavailableError("other requests are ending deliveries of the message; try again")


def end_after_pull(world: World, group: Subscription, row: MessageRow, state: EntryState, pulls: int) -> None:
    """Publish the dead letter of a delivery, and end it as *state*, after *pulls* pulls without acknowledgement."""
    entry = Entry(state)
    if pulls:
        known = stored.failed_pulls(world.store, group.topic, row.message.message_id).get(group.ordinal)
        entry = last_pull(known, pulls, world.clock.now()).entry(state)
    publish_dead_letter(world, group, row.message, entry)
    if end_pulled(world, group, row, entry):
        world.telemetry.record_end(row.message, group, state)


def keep_failure(world: World, group: Subscription, message: Message, pulls: int, outcome: str) -> None:
    """Record the number of failed *pulls* and the last *outcome*, for display only. A throttled write is lost."""
    pulled = FailedPulls(pulls, world.clock.now(), outcome)
    with suppress(TableThrottledError):
        world.store.write(pulled_put(group.topic, message.message_id, group.ordinal, pulled, message.expires_at))
