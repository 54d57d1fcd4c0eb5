"""Use cases of subscriptions: make, change, look at, list, remove, and the history of their filters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import pairwise

from tagcast.concurrency.contention import until_won
from tagcast.errors import (
    ConditionLostError,
    ConflictError,
    Fault,
    InvalidRequestError,
    NotFoundError,
    PreconditionFailedError,
)
from tagcast.filters.kinds import canonical
from tagcast.model import LaneState, Subscription, SubscriptionSettings, Topic
from tagcast.paging import Page
from tagcast.ports import GroupQueue, World, Write
from tagcast.registry.directory import directory_of, read_topic
from tagcast.registry.groups import lane_to_fill, make_queue, with_secret
from tagcast.rows import stored
from tagcast.rows.filter_version import FilterVersion, version_delete, version_expiry, version_put
from tagcast.rows.lane import Lane, lane_put, lane_update
from tagcast.rows.message import TOMBSTONE_S
from tagcast.rows.removal import removal_put
from tagcast.rows.subscription_writes import subscription_deletes, subscription_put
from tagcast.rows.topic_writes import change_update
from tagcast.sealing.secrets import sealed

SUBSCRIPTIONS_MAX = 10_000
NO_VERSION = 0
"""Of what does not exist: versions count from 1."""
VERSIONS_KEPT = 20
VERSION_LIFE_S = 2 * 86_400
ALONE_MAX, VERSIONS_AT_ONCE = 16, 90
"""So many histories are read each for itself; so many versions of one a transaction has room for."""


def put_subscription(
    world: World,
    topic: str,
    name: str,
    settings: SubscriptionSettings,
    if_match: int | None = None,
    also: tuple[Write, ...] = (),
) -> tuple[Subscription, bool]:
    """Create the subscription or replace it, together with *also*; return it and whether it is new.

    *if_match* is the version that it must have, :data:`NO_VERSION` for none: then it must not exist.

    Raises NotFoundError (topic), InvalidFilterError, InvalidRequestError (endpoint not allowed),
    PreconditionFailedError (*if_match* is not its version), ConflictError (too many; or what cannot change of a
    group), UnavailableError.
    """
    settings = replace(settings, filter=canonical(settings.filter))
    refusal = world.guard.refusal(settings.endpoint)
    if refusal is not None:
        raise InvalidRequestError((Fault(refusal, "/endpoint"),))

    def attempt() -> tuple[Subscription, bool, Lane | None]:
        owner = read_topic(world, topic)
        known = stored.subscription(world.store, topic, name)
        check_version(known, if_match)
        changed = _changed(world, owner, name, with_secret(world, settings, known), known)
        changed, secrets = sealed(world, changed, known)
        if changed.settings.is_group:
            make_queue(world, changed)
        lane = lane_to_fill(world, owner, changed) if known is None else None
        filled = () if lane is None else (lane_put(lane),)
        world.store.transact((*_put_writes(owner, changed, known), *secrets, *filled, *also))
        return changed, known is None, lane

    changed, is_new, lane = until_won(world, f"topic {topic}", attempt)
    if lane is not None:
        world.workflow.start(topic, lane.subscription_id, lane.generation)
    _forget_old_versions(world, changed)
    return changed, is_new


def change_subscription(
    world: World, topic: str, name: str, change: Callable[[SubscriptionSettings], SubscriptionSettings]
) -> Subscription:
    """Give a subscription what *change* makes of its settings; raises as :func:`put_subscription` does."""

    def attempt() -> Subscription:
        known = get_subscription(world, topic, name)
        try:
            return put_subscription(world, topic, name, change(known.settings), known.version)[0]
        except PreconditionFailedError:
            raise ConditionLostError from None

    return until_won(world, f"topic {topic}", attempt)


def replace_filter(
    world: World, known: Subscription, filter: Mapping[str, object] | None, *also: Write
) -> Subscription:
    """Give *known* another filter, as a new version, together with *also*; ConditionLostError if any of it changed."""
    settings = replace(known.settings, filter=canonical(filter))
    owner = read_topic(world, known.topic)
    changed = _changed(world, owner, known.name, settings, known)
    world.store.transact((*_put_writes(owner, changed, known), *also))
    _forget_old_versions(world, changed)
    return changed


def check_version(known: Subscription | None, if_match: int | None) -> None:
    """Raise PreconditionFailedError if there is a version that *known* must have, and it has another one."""
    present = NO_VERSION if known is None else known.version
    if if_match is not None and present != if_match:
        raise PreconditionFailedError(f"the subscription {f'has version {present}' if present else 'does not exist'}")


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


def _put_writes(owner: Topic, changed: Subscription, known: Subscription | None) -> tuple[Write, ...]:
    added = 0 if known is not None else 1
    return (
        change_update(owner, changed.name, subscriptions=added, ordinals=added),
        subscription_put(changed, known),
        version_put(changed, owner.subscriptions_version + 1),
    )


def _forget_old_versions(world: World, subscription: Subscription) -> None:
    """Keep the last 20 versions and all that were still in force within the longest life."""
    if subscription.version <= VERSIONS_KEPT:
        return
    history = _history(world, subscription)
    horizon = world.clock.now() - VERSION_LIFE_S * 1000
    for version, successor in pairwise(history[: 1 - VERSIONS_KEPT]):
        if successor.changed_at < horizon:
            world.store.write(version_delete(subscription.topic, version))


def _history(world: World, subscription: Subscription) -> list[FilterVersion]:
    return stored.filter_versions(world.store, subscription.topic, subscription.ordinal, subscription.ordinal)


def get_subscription(world: World, topic: str, name: str) -> Subscription:
    """Return the subscription or raise NotFoundError for it or its topic."""
    subscription = stored.subscription(world.store, topic, name)
    if subscription is None:
        read_topic(world, topic)
        raise NotFoundError("subscription", name)
    return subscription


def list_subscriptions(world: World, topic: str, limit: int, cursor: str | None) -> Page[Subscription]:
    """Return subscriptions in order of their names, after *cursor*."""
    present = directory_of(world, topic).by_name
    names = sorted(name for name in present if cursor is None or name > cursor)
    return Page(tuple(present[name] for name in names[:limit]), names[limit - 1] if len(names) > limit else None)


def delete_subscription(
    world: World, topic: str, name: str, if_match: int | None = None, also: tuple[Write, ...] = ()
) -> None:
    """Remove the subscription, together with *also*; what it is owed is cancelled. Its id is never used again."""

    def attempt() -> Lane:
        owner = read_topic(world, topic)
        known = get_subscription(world, topic, name)
        check_version(known, if_match)
        lane = stored.lane(world.store, topic, known.subscription_id)
        tombstone = _tombstone(world, known, lane)
        world.store.transact(
            (
                change_update(owner, name, subscriptions=-1),
                *subscription_deletes(known),
                removal_put(known, tombstone, owner.subscriptions_version + 1),
                lane_put(tombstone) if lane is None else lane_update(tombstone, lane.same_generation()),
                *_forgotten(world, known, tombstone),
                *also,
            )
        )
        return tombstone

    tombstone = until_won(world, f"topic {topic}", attempt)
    world.workflow.start(topic, tombstone.subscription_id, tombstone.generation)


def _forgotten(world: World, subscription: Subscription, tombstone: Lane) -> list[Write]:
    """Return the writes after which the history of a removed subscription goes with its name: no receipt needs it."""
    history = _history(world, subscription)[-VERSIONS_AT_ONCE:]
    return [version_expiry(subscription.topic, version, tombstone.ttl) for version in history]


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
        queue=GroupQueue.of(subscription) if subscription.settings.is_group else None,
    )


def filter_versions(world: World, topic: str, name: str) -> tuple[FilterVersion, ...]:
    """Return the kept versions of a subscription's filter, newest first."""
    return tuple(reversed(_history(world, get_subscription(world, topic, name))))


def filter_version(world: World, topic: str, ordinal: int, version: int) -> FilterVersion | None:
    """Return one version of the filter of *ordinal*, as long as it is kept."""
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
