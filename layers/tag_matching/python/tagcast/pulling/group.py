"""The group that a member names, and how entries of its queue end."""

from __future__ import annotations

from contextlib import suppress
from math import ceil

from tagcast.delivery.dead_letter import publish_dead_letter
from tagcast.delivery.ending import TRIES_MAX, end_alone
from tagcast.errors import ConflictError, UnavailableError
from tagcast.model import Entry, EntryState, Message, Subscription
from tagcast.ports import GroupQueue, QueueCounts, World
from tagcast.registry.subscriptions import get_subscription
from tagcast.rows import stored
from tagcast.rows.due import Pulled, last_pull, pulled_put
from tagcast.rows.message import MessageRow


def group_of(world: World, topic: str, name: str) -> Subscription:
    """Return the group or raise NotFoundError for it or its topic, ConflictError if that subscription is none."""
    found = get_subscription(world, topic, name)
    if not found.settings.is_group:
        raise ConflictError(f"subscription {name} is pushed to; only a group (protocol pull) is pulled from")
    return found


def queue_counts(world: World, subscription: Subscription) -> QueueCounts | None:
    """Return about how much lies in the queue of a group; None if it does not say, or *subscription* is no group."""
    if not subscription.settings.is_group:
        return None
    with suppress(UnavailableError):  # The rest of the group is shown all the same.
        return world.group_queues.counts(GroupQueue.of(subscription))
    return None


def queue_s(world: World, seconds: float) -> int:
    """Return *seconds* as a queue counts them, whole and as short as the time of *world* is."""
    return ceil(seconds / world.time_scale)


def end_pulled(world: World, group: Subscription, row: MessageRow, entry: Entry) -> bool:
    """End the delivery to *group* as *entry*; *row* is its message as read, when it was owed. Say whether it still was.

    The end of each delivery is put once, so nobody else is in the way but who ends the same one, or closes the round.
    UnavailableError: somebody was, again and again.
    """
    known: MessageRow | None = row
    for _ in range(TRIES_MAX):
        if known is None or group.ordinal not in known.map.owed:
            return False
        if end_alone(world.store, known, group.ordinal, entry):
            return True
        known = stored.again(world.store, known)
    raise UnavailableError("other requests are ending deliveries of the message; try again")


def end_after_pull(world: World, group: Subscription, row: MessageRow, state: EntryState, pulls: int) -> None:
    """Settle as *state* what nobody acknowledged in *pulls* pulls, with what is known of the last of them."""
    entry = Entry(state)
    if pulls:
        known = stored.pulled(world.store, group.topic, row.message.message_id).get(group.ordinal)
        entry = last_pull(known, pulls, world.clock.now()).entry(state)
    publish_dead_letter(world, group, row.message, entry)
    if end_pulled(world, group, row, entry):
        world.telemetry.settled(row.message, group, state)


def keep_failure(world: World, group: Subscription, message: Message, pulls: int, outcome: str) -> None:
    """Write down that *pulls* pulls came to nothing, so that people see it while the entry is owed."""
    pulled = Pulled(pulls, world.clock.now(), outcome)
    world.store.write(pulled_put(group.topic, message.message_id, group.ordinal, pulled, message.expires_at))
