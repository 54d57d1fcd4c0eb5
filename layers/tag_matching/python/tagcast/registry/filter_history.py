"""The history of subscriptions' filters: when each version was in force, and how long it is kept."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from tagcast.errors import ConditionLostError
from tagcast.model import Subscription
from tagcast.ports import World
from tagcast.rows import stored
from tagcast.rows.message import TOMBSTONE_S
from tagcast.rows.subscription import FILTER_VERSIONS, FilterVersion, version_expiry
from tagcast.rows.values import number, row_bytes

VERSIONS_KEPT = 20
ALONE_MAX = 16
SPAN_MAX = 20
"""Up to 16 histories, or more with distant ordinals, are read one by one. All others are read together."""
TOGETHER_BYTES = 16_384
"""The mean bytes per history up to which histories are read together. A row that is read alone costs 4 KB or more."""


def let_expire(world: World, subscription: Subscription) -> None:
    """Let an old filter version expire after a new version of *subscription* was stored.

    It is the version that 20 newer versions follow. It outlives all receipts that use it. No history is read, so the
    cost does not grow with the number of changes. The version before it is written again, because its own write may
    have been throttled.
    """
    newest, ttl = subscription.version - VERSIONS_KEPT, world.clock.now() // 1000 + TOMBSTONE_S
    for version in range(max(1, newest - 1), newest + 1):
        with suppress(ConditionLostError):
            world.store.write(version_expiry(subscription.topic, subscription.ordinal, version, ttl))


def versions_in_force(
    world: World, topic: str, subscriptions_version: int, ordinals: Collection[int]
) -> dict[int, FilterVersion]:
    """Return the filter versions that a publish at *subscriptions_version* of the topic evaluated, by ordinal.

    An ordinal without such a stored version is left out.
    """
    found: dict[int, FilterVersion] = {}
    if len(ordinals) > ALONE_MAX and max(ordinals) - min(ordinals) <= SPAN_MAX * len(ordinals):
        left, many = TOGETHER_BYTES * len(ordinals), min(len(ordinals), stored.ROWS_AT_ONCE)
        for row in stored.version_rows(world.store, topic, min(ordinals), max(ordinals), many):
            ordinal = number(row, "ordinal")
            if number(row, "since") <= subscriptions_version and ordinal in ordinals and ordinal not in found:
                found[ordinal] = FILTER_VERSIONS.value_of(row)
            if (left := left - row_bytes(row)) < 0:
                break
    for ordinal in ordinals:
        if ordinal not in found and (version := _in_force(world, topic, subscriptions_version, ordinal)) is not None:
            found[ordinal] = version
    return found


def _in_force(world: World, topic: str, subscriptions_version: int, ordinal: int) -> FilterVersion | None:
    """Return the newest version of *ordinal* with a *since* of at most *subscriptions_version*, by bisection.

    Each version of the subscription is a version of the topic, too. So no more subscription versions than topic
    versions are newer than the result.
    """

    def newest(before: int | None = None) -> FilterVersion | None:
        return next(iter(stored.filter_history(world.store, topic, ordinal, 1, before)), None)

    found = newest()
    if found is None or found.since <= subscriptions_version:
        return found
    high, low, found = found.version, max(0, found.version - (found.since - subscriptions_version) - 1), None
    while high - low > 1:
        middle = (low + high) // 2
        version = newest(middle + 1)
        if version is not None and version.since > subscriptions_version:
            high = version.version
        else:
            low, found = middle, version
    return found
