"""The group that a member names, and what lies in its queue."""

from __future__ import annotations

from contextlib import suppress
from math import ceil

from tagcast.errors import ConflictError, UnavailableError
from tagcast.model import Subscription
from tagcast.ports import GroupQueue, QueueCounts, World
from tagcast.registry.subscriptions import get_subscription


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
    with suppress(UnavailableError):  # Whoever looks at the group wants to see the rest of it all the same.
        return world.group_queues.counts(GroupQueue.of(subscription))
    return None


def queue_s(world: World, seconds: float) -> int:
    """Return *seconds* as a queue counts them, whole and as short as the time of *world* is."""
    return ceil(seconds / world.time_scale)
