"""Use cases of subscriptions: make, change, look at, list, remove, and the history of their filters."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

from tagcast.concurrency.contention import until_won
from tagcast.errors import (
    ConflictError,
    Fault,
    InvalidRequestError,
    NotFoundError,
    PreconditionFailedError,
)
from tagcast.filters.kinds import canonical
from tagcast.model import LaneState, Subscription, SubscriptionSettings, Topic
from tagcast.paging import Page
from tagcast.ports import ABSENT, Delete, Expectation, Put, Row, Table, Update, Value, World, Write
from tagcast.registry.directory import read_topic, snapshot
from tagcast.rows.keys import lane_key, name_key, shadow_key, subscription_key, topic_key, version_key
from tagcast.rows.lane import Lane, lane_of, lane_row, lane_update
from tagcast.rows.message import TOMBSTONE_S
from tagcast.rows.recent_changes import with_change
from tagcast.rows.registry import subscription_of, subscription_row
from tagcast.rows.removal import removal_row

SUBSCRIPTIONS_MAX = 10_000
VERSIONS_KEPT = 20
VERSION_LIFE_S = 2 * 86_400
ALONE_MAX, VERSIONS_AT_ONCE = 16, 90
"""So many histories are read each for itself; so many versions of one a transaction has room for."""


@dataclass(frozen=True, slots=True)
class FilterVersion:
    """One version of a subscription's filter and since when it was evaluated."""

    version: int
    filter: Mapping[str, object] | None
    changed_at: int
    since: int


def put_subscription(
    world: World, topic: str, name: str, settings: SubscriptionSettings, if_match: int | None = None
) -> tuple[Subscription, bool]:
    """Create the subscription or replace it; return it and whether it is new.

    Raises NotFoundError (topic), InvalidFilterError, InvalidRequestError (endpoint not allowed),
    PreconditionFailedError (*if_match* is not its version), ConflictError (too many).
    """
    settings = replace(settings, filter=canonical(settings.filter))
    refusal = world.guard.refusal(settings.endpoint)
    if refusal is not None:
        raise InvalidRequestError((Fault(refusal, "/endpoint"),))

    def attempt() -> tuple[Subscription, bool]:
        owner = read_topic(world, topic)
        row = world.store.get(subscription_key(topic, name))
        known = None if row is None else subscription_of(row)
        _check_version(known, if_match)
        changed = _changed(world, owner, name, settings, known)
        world.store.transact(_put_writes(world, owner, changed, known))
        return changed, known is None

    changed, is_new = until_won(world, f"topic {topic}", attempt)
    _forget_old_versions(world, changed)
    return changed, is_new


def replace_filter(world: World, known: Subscription, filter: Mapping[str, object] | None, also: Write) -> Subscription:
    """Give *known* another filter, as a new version, together with *also*; ConditionLostError if either changed."""
    settings = replace(known.settings, filter=canonical(filter))
    owner = read_topic(world, known.topic)
    changed = _changed(world, owner, known.name, settings, known)
    world.store.transact((*_put_writes(world, owner, changed, known), also))
    _forget_old_versions(world, changed)
    return changed


def _check_version(known: Subscription | None, if_match: int | None) -> None:
    if if_match is not None and (known is None or known.version != if_match):
        present = "does not exist" if known is None else f"has version {known.version}"
        raise PreconditionFailedError(f"the subscription {present}")


def _changed(
    world: World, owner: Topic, name: str, settings: SubscriptionSettings, known: Subscription | None
) -> Subscription:
    if known is None and owner.subscription_count >= SUBSCRIPTIONS_MAX:
        raise ConflictError(f"a topic has at most {SUBSCRIPTIONS_MAX} subscriptions")
    now = world.clock.now()
    return Subscription(
        topic=owner.name,
        name=name,
        topic_id=owner.topic_id,
        ordinal=owner.next_ordinal if known is None else known.ordinal,
        settings=settings,
        version=1 if known is None else known.version + 1,
        created_at=now if known is None else known.created_at,
        updated_at=now,
    )


def _put_writes(world: World, owner: Topic, changed: Subscription, known: Subscription | None) -> tuple[Write, ...]:
    since = owner.subscriptions_version + 1
    counts: dict[str, Value] = {**with_change(owner, changed.name)}
    if known is None:
        counts |= {"subscription_count": owner.subscription_count + 1, "next_ordinal": owner.next_ordinal + 1}
    version: dict[str, str | int] = {
        "name": changed.name,
        "topic_id": changed.topic_id,
        "ordinal": changed.ordinal,
        "version": changed.version,
        "changed_at": changed.updated_at,
        "since": since,
    }
    if changed.settings.filter is not None:
        version["filter"] = json.dumps(changed.settings.filter, sort_keys=True)
    expect: Expectation = {"pk": ABSENT} if known is None else {"version": known.version, "ordinal": known.ordinal}
    return (
        Update(topic_key(owner.name), counts, expect=_as_read(owner)),
        Put(subscription_key(owner.name, changed.name), subscription_row(changed), expect),
        Put(version_key(owner.name, changed.ordinal, changed.version), version),
    )


def _as_read(topic: Topic) -> Expectation:
    return {"topic_id": topic.topic_id, "subscriptions_version": topic.subscriptions_version}


def _forget_old_versions(world: World, subscription: Subscription) -> None:
    """Keep the last 20 versions and all that were still in force within the longest life."""
    if subscription.version <= VERSIONS_KEPT:
        return
    history = _version_rows(world, subscription.topic, subscription.ordinal)
    horizon = world.clock.now() - VERSION_LIFE_S * 1000
    for row, successor in pairwise(history[: 1 - VERSIONS_KEPT]):
        if cast("int", successor["changed_at"]) < horizon:
            version = cast("int", row["version"])
            world.store.write(Delete(version_key(subscription.topic, subscription.ordinal, version)))


def _version_rows(world: World, topic: str, ordinal: int) -> list[Row]:
    first = version_key(topic, ordinal, 0)
    return world.store.query(Table.REGISTRY, first.pk, sk_from=first.sk, sk_to=version_key(topic, ordinal + 1, 0).sk)


def get_subscription(world: World, topic: str, name: str) -> Subscription:
    """Return the subscription or raise NotFoundError for it or its topic."""
    row = world.store.get(subscription_key(topic, name))
    if row is None:
        read_topic(world, topic)
        raise NotFoundError("subscription", name)
    return subscription_of(row)


def list_subscriptions(world: World, topic: str, limit: int, cursor: str | None) -> Page[Subscription]:
    """Return subscriptions in order of their names, after *cursor*."""
    present = snapshot(world, topic).by_name
    names = sorted(name for name in present if cursor is None or name > cursor)
    return Page(tuple(present[name] for name in names[:limit]), names[limit - 1] if len(names) > limit else None)


def delete_subscription(world: World, topic: str, name: str, if_match: int | None = None) -> None:
    """Remove the subscription; what it is owed is cancelled. Its id and ordinal are never used again."""

    def attempt() -> Lane:
        owner = read_topic(world, topic)
        known = get_subscription(world, topic, name)
        _check_version(known, if_match)
        row = world.store.get(lane_key(topic, known.subscription_id))
        lane = None if row is None else lane_of(row)
        tombstone = _tombstone(world, known, lane)
        counts: dict[str, Value] = {
            **with_change(owner, name),
            "subscription_count": owner.subscription_count - 1,
        }
        bury = Put(tombstone.key, lane_row(tombstone), {"pk": ABSENT})
        kept = removal_row(known, tombstone, owner.subscriptions_version + 1)
        world.store.transact(
            (
                Update(topic_key(topic), counts, expect=_as_read(owner)),
                Delete(subscription_key(topic, name), {"version": known.version, "ordinal": known.ordinal}),
                Delete(shadow_key(topic, name)),
                Put(name_key(topic, known.ordinal), kept),
                bury if lane is None else lane_update(tombstone, lane.same_generation()),
                *_forgotten(world, known, tombstone),
            )
        )
        return tombstone

    tombstone = until_won(world, f"topic {topic}", attempt)
    world.workflow.start(topic, tombstone.subscription_id, tombstone.generation)


def _forgotten(world: World, subscription: Subscription, tombstone: Lane) -> list[Update]:
    """Return the writes after which the history of a removed subscription goes with its name: no receipt needs it."""
    rows = _version_rows(world, subscription.topic, subscription.ordinal)[-VERSIONS_AT_ONCE:]
    keys = (version_key(subscription.topic, subscription.ordinal, cast("int", row["version"])) for row in rows)
    return [
        Update(key, {"ttl": tombstone.ttl}, (), {"version": row["version"]})
        for key, row in zip(keys, rows, strict=True)
    ]


def _tombstone(world: World, subscription: Subscription, lane: Lane | None) -> Lane:
    now = world.clock.now()
    return Lane(
        topic=subscription.topic,
        subscription_id=subscription.subscription_id,
        state=LaneState.REMOVED,
        generation=world.dice.unique_id(now),
        appended=0 if lane is None else lane.appended,
        claim=0 if lane is None else lane.claim,
        next_attempt_at=now,
        wake_at=now,
        ttl=now // 1000 + TOMBSTONE_S,
    )


def filter_versions(world: World, topic: str, name: str) -> tuple[FilterVersion, ...]:
    """Return the kept versions of a subscription's filter, newest first."""
    subscription = get_subscription(world, topic, name)
    history = _version_rows(world, topic, subscription.ordinal)
    return tuple(filter_version_of(row) for row in reversed(history))


def filter_version_of(row: Row) -> FilterVersion:
    """Return the filter version in a row."""
    text = cast("str | None", row.get("filter"))
    return FilterVersion(
        version=cast("int", row["version"]),
        filter=None if text is None else json.loads(text),
        changed_at=cast("int", row["changed_at"]),
        since=cast("int", row["since"]),
    )


def versions_in_force(
    world: World, topic: str, subscriptions_version: int, ordinals: Collection[int]
) -> dict[int, FilterVersion]:
    """Return the filter versions of *ordinals* that a publish at *subscriptions_version* evaluated."""
    alone = [(each, each) for each in sorted(ordinals)]
    ranges = alone if len(alone) <= ALONE_MAX else [(min(ordinals), max(ordinals))]
    found = {}
    for low, high in ranges:
        first, last = version_key(topic, low, 0), version_key(topic, high + 1, 0)
        for row in world.store.query(Table.REGISTRY, first.pk, sk_from=first.sk, sk_to=last.sk):
            if cast("int", row["since"]) <= subscriptions_version:
                found[cast("int", row["ordinal"])] = filter_version_of(row)
    return {ordinal: found[ordinal] for ordinal in ordinals if ordinal in found}
