"""The history of subscriptions' filters: when each version was in force, and how long it is kept."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from tagcast.model import Subscription
from tagcast.ports import World
from tagcast.rows import stored
from tagcast.rows.message import TOMBSTONE_S
from tagcast.rows.subscription import FilterVersion, version_delete

VERSIONS_KEPT = 20
ALONE_MAX = 16
"""At most 16 histories are read one by one; more are read together."""


def history_of(world: World, subscription: Subscription) -> list[FilterVersion]:
    """Return the kept versions of the subscription's filter, oldest first."""
    return stored.filter_versions(world.store, subscription.topic, subscription.ordinal, subscription.ordinal)


def forget_old_versions(world: World, subscription: Subscription) -> None:
    """Delete old filter versions, except the last 20 and those in force when a message with a receipt was accepted."""
    if subscription.version <= VERSIONS_KEPT:
        return
    history = history_of(world, subscription)
    horizon = world.clock.now() - TOMBSTONE_S * 1000
    for version, successor in pairwise(history[: 1 - VERSIONS_KEPT]):
        if successor.changed_at < horizon:
            world.store.write(version_delete(subscription.topic, version))


def filter_version(world: World, topic: str, ordinal: int, version: int) -> FilterVersion | None:
    """Return one version of the filter of *ordinal*, while it is kept."""
    history = stored.filter_versions(world.store, topic, ordinal, ordinal)
    return next((each for each in history if each.version == version), None)


def versions_in_force(
    world: World, topic: str, subscriptions_version: int, ordinals: Collection[int]
) -> dict[int, FilterVersion]:
    """Return the filter versions of *ordinals* that a publish at *subscriptions_version* evaluated."""
    alone = [(each, each) for each in sorted(ordinals)]
    ranges = alone if len(alone) <= ALONE_MAX else [(min(ordinals), max(ordinals))]
    found = {}
    for first, last in ranges:
        for version in stored.filter_versions(world.store, topic, first, last):
            if version.since <= subscriptions_version:
                found[version.ordinal] = version
    return {ordinal: found[ordinal] for ordinal in ordinals if ordinal in found}
