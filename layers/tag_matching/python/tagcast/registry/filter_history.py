"""The history of subscriptions' filters: when each version was in force, and how long it is kept."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from tagcast.errors import ConditionLostError
from tagcast.model import Subscription
from tagcast.ports import World
from tagcast.rows import stored
from tagcast.rows.message import TOMBSTONE_S
from tagcast.rows.subscription import FilterVersion, version_expiry

VERSIONS_KEPT = 20
READ_AT_ONCE = 10
"""The version of a message is most often among the newest."""
ALONE_MAX = 16
SPAN_MAX = 20
"""Up to 16 histories are read one by one, and also more with distant ordinals. Others are read in one query."""


def let_expire(world: World, subscription: Subscription) -> None:
    """Set the expiry of the filter version with 20 newer versions, so that it outlives all receipts that use it.

    Each change reads no history, so a filter may change any number of times. It also repeats the write of the change
    before, which may have been throttled.
    """
    newest, ttl = subscription.version - VERSIONS_KEPT, world.clock.now() // 1000 + TOMBSTONE_S
    for version in range(max(1, newest - 1), newest + 1):
        with suppress(ConditionLostError):
            world.store.write(version_expiry(subscription.topic, subscription.ordinal, version, ttl))


def versions_in_force(
    world: World, topic: str, subscriptions_version: int, ordinals: Collection[int]
) -> dict[int, FilterVersion]:
    """Return the filter versions of *ordinals* that a publish at *subscriptions_version* evaluated."""
    if len(ordinals) <= ALONE_MAX or max(ordinals) - min(ordinals) > SPAN_MAX * len(ordinals):
        alone = ((each, _in_force(world, topic, subscriptions_version, each)) for each in ordinals)
        return {ordinal: version for ordinal, version in alone if version is not None}
    found: dict[int, FilterVersion] = {}
    for version in stored.filter_versions(world.store, topic, min(ordinals), max(ordinals)):
        if version.since <= subscriptions_version and version.ordinal in ordinals:
            found.setdefault(version.ordinal, version)
    return {ordinal: found[ordinal] for ordinal in ordinals if ordinal in found}


def _in_force(world: World, topic: str, subscriptions_version: int, ordinal: int) -> FilterVersion | None:
    before: int | None = None
    while part := stored.filter_history(world.store, topic, ordinal, READ_AT_ONCE, before):
        for version in part:
            if version.since <= subscriptions_version:
                return version
        before = part[-1].version
    return None
