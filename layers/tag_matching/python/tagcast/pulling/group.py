"""The group that a member names."""

from __future__ import annotations

from math import ceil

from tagcast.errors import ConflictError
from tagcast.model import Subscription
from tagcast.ports import World
from tagcast.registry.subscriptions import get_subscription


def group_of(world: World, topic: str, name: str) -> Subscription:
    """Return the group or raise NotFoundError for it or its topic, ConflictError if that subscription is none."""
    found = get_subscription(world, topic, name)
    if not found.settings.is_group:
        raise ConflictError(f"subscription {name} is pushed to; only a group (protocol pull) is pulled from")
    return found


def queue_s(world: World, seconds: float) -> int:
    """Return *seconds* as a queue counts them, whole and as short as the time of *world* is."""
    return ceil(seconds / world.time_scale)
