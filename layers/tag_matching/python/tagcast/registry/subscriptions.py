"""Use cases of subscriptions: create, update, get, list, delete, rotate secrets, and the history of filters."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from tagcast.concurrency.contention import until_won
from tagcast.errors import ConditionLostError, ConflictError, NotFoundError, PreconditionFailedError
from tagcast.model import LaneState, Protocol, Subscription, SubscriptionSettings
from tagcast.ports import GroupQueue, World, Write
from tagcast.registry.directory import read_topic, wait_for_publishers
from tagcast.registry.filter_history import VERSIONS_KEPT
from tagcast.registry.subscribing import (
    StoredSubscription,
    SubscriptionRequest,
    check_version,
    put_together,
    replace_filter,
    update_counts,
    validate,
)
from tagcast.rows import stored
from tagcast.rows.keys import subscription_key
from tagcast.rows.lane import Lane
from tagcast.rows.lane_transitions import lane_put, remove
from tagcast.rows.member import registration_deletes
from tagcast.rows.message import TOMBSTONE_S
from tagcast.rows.subscription import SUBSCRIPTIONS, FilterVersion, removal_put, subscription_deletes, version_expiry
from tagcast.rows.topic import change_update
from tagcast.sealing import open_secrets
from tagcast.subscription_settings import FormerSecret
from tagcast.tables import Page


def put_subscription(
    world: World,
    topic: str,
    name: str,
    settings: SubscriptionSettings,
    if_match: int | None = None,
    also: Callable[[Subscription], Write] | None = None,
    keeps: frozenset[str] = frozenset(),
) -> tuple[Subscription, bool]:
    """Create or replace the subscription. Return it, and whether it is new.

    *if_match* is the required current version; ``NO_VERSION`` if the subscription must not exist, None for any. The
    same transaction makes the write that *also* returns for the subscription. *keeps* names the fields whose existing
    secrets stay.

    Raises NotFoundError (topic), InvalidFilterError, InvalidRequestError (endpoint not allowed),
    PreconditionFailedError (other version), UnavailableError, ConflictError (too many subscriptions, or a change of a
    setting that is fixed for a group).
    """
    wanted = SubscriptionRequest(name, settings, if_match, keeps)
    valid = validate(world, topic, wanted, stored.subscription(world.store, topic, name))
    (made,) = put_together(world, topic, (valid,), also)
    if not isinstance(made, StoredSubscription):
        raise made
    wait_for_publishers(world)
    return made.subscription, made.is_new


def change_subscription(
    world: World, topic: str, name: str, change: Callable[[SubscriptionSettings], SubscriptionSettings]
) -> Subscription:
    """Replace a subscription's settings with the result of *change*. Raises the errors of :func:`put_subscription`."""

    def attempt() -> Subscription:
        known = get_subscription(world, topic, name)
        try:
            return put_subscription(world, topic, name, change(known.settings), known.version)[0]
        except PreconditionFailedError:
            raise ConditionLostError from None

    return until_won(world, f"topic {topic}", attempt)


def get_subscription(world: World, topic: str, name: str) -> Subscription:
    """Return the subscription. Raises NotFoundError if the subscription or its topic does not exist."""
    subscription = stored.subscription(world.store, topic, name)
    if subscription is None:
        read_topic(world, topic)
        raise NotFoundError("subscription", name)
    return subscription


def list_subscriptions(world: World, topic: str, limit: int, cursor: str | None) -> Page[Subscription]:
    """Return at most *limit* subscriptions, sorted by name, after the name *cursor*."""
    read_topic(world, topic)
    after = "" if cursor is None else subscription_key(topic, cursor).sk
    rows = stored.subscription_rows(world.store, topic, after=after, limit=limit + 1)
    found = tuple(SUBSCRIPTIONS.value_of(row) for row in rows[:limit])
    return Page(found, found[-1].name if len(rows) > limit else None)


def delete_subscription(
    world: World, topic: str, name: str, if_match: int | None = None, also: tuple[Write, ...] = ()
) -> None:
    """Delete the subscription. Its pending deliveries end later.

    *if_match* is the required current version; None allows any. *also* are further writes of the transaction. If it is
    empty, the transaction deletes the subscription's registration for heartbeats. Raises NotFoundError and
    PreconditionFailedError.
    """

    def attempt() -> Lane:
        owner = read_topic(world, topic)
        known = get_subscription(world, topic, name)
        check_version(known, if_match)
        lane = stored.lane(world.store, topic, known.subscription_id)
        tombstone, lane_write = _tombstone(world, known, lane)
        world.store.transact(
            (
                change_update(owner, name, after=update_counts(owner, None, known)),
                *subscription_deletes(known),
                removal_put(known, tombstone, owner.subscriptions_version + 1),
                lane_write,
                *_forgotten(world, known, tombstone),
                *(also or registration_deletes(topic, name)),
            )
        )
        return tombstone

    tombstone = until_won(world, f"topic {topic}", attempt)
    world.workflow.start(topic, tombstone.subscription_id, tombstone.generation)
    wait_for_publishers(world)


def _forgotten(world: World, subscription: Subscription, tombstone: Lane) -> list[Write]:
    """Return the writes that let a deleted subscription's filter history expire when no receipt needs it."""
    topic, ordinal = subscription.topic, subscription.ordinal
    # The last 20 versions have no expiry. Older versions have none if a process died before it set one.
    newest = stored.filter_history(world.store, topic, ordinal, 2 * VERSIONS_KEPT, None)
    return [version_expiry(topic, ordinal, each.version, tombstone.ttl) for each in newest]


def _tombstone(world: World, subscription: Subscription, lane: Lane | None) -> tuple[Lane, Write]:
    """Return the lane of a deleted subscription, and its write."""
    now = world.clock.now()
    queue = GroupQueue.of(subscription) if subscription.settings.is_group else None
    known = lane or Lane(subscription.topic, subscription.subscription_id, LaneState.ACTIVE, "", 0, 0, None, None)
    tombstone, write = remove(known, world.dice.unique_id(now), now, now // 1000 + TOMBSTONE_S, queue)
    return tombstone, lane_put(tombstone) if lane is None else write


def filter_versions(world: World, topic: str, name: str, limit: int, cursor: str | None) -> Page[FilterVersion]:
    """Return a page of at most *limit* stored versions of a subscription's filter, newest first.

    With *cursor*, a version number as text, the page has only lower versions.
    """
    ordinal = get_subscription(world, topic, name).ordinal
    before = None if cursor is None else int(cursor)
    found = stored.filter_history(world.store, topic, ordinal, limit + 1, before)
    return Page(tuple(found[:limit]), str(found[limit - 1].version) if len(found) > limit else None)


def change_filter(
    world: World, topic: str, name: str, filter: Mapping[str, object] | None, if_match: int | None = None
) -> Subscription:
    """Replace the filter by a new version; all other settings and secrets stay.

    *if_match* is the required current version; None allows any. Messages accepted earlier keep the verdict of the
    former filter.

    Raises NotFoundError, InvalidFilterError, PreconditionFailedError.
    """

    def attempt() -> Subscription:
        known = get_subscription(world, topic, name)
        check_version(known, if_match)
        return replace_filter(world, known, filter)

    return until_won(world, f"topic {topic}", attempt)


GRACE_S_MAX = 7 * 86_400
FORMERS_MAX = 3
"""At most 3 previous secrets sign in addition to the current secret. The oldest secrets are dropped."""


def generated_secret(world: World) -> str:
    """Return a new secret of 256 bits in its text form."""
    return f"whsec_{b64encode(sha256(world.dice.secret().encode()).digest()).decode()}"


def rotate_secret(
    world: World, topic: str, name: str, secret: str, grace_s: int, if_match: int | None = None
) -> tuple[Subscription, int | None]:
    """Rotate the subscription's secret. Return the subscription, and the instant at which the previous secret expires.

    The previous secret also signs for *grace_s* seconds. The instant is None if no previous secret is valid.
    *if_match* is the required current version; None allows any. Rotating to the current secret changes nothing, so a
    call can be repeated. Raises NotFoundError, ConflictError (pushes do not use HTTP), PreconditionFailedError,
    UnavailableError.
    """
    until = world.clock.now() + round(grace_s * 1000 / world.time_scale)

    def change(present: SubscriptionSettings) -> SubscriptionSettings:
        now = world.clock.now()
        formers = [former for former in present.formers if now < former.until and former.secret != secret]
        if present.secret is not None and grace_s:
            formers.append(FormerSecret(present.secret, until))
        return replace(present, secret=secret, formers=tuple(formers[-FORMERS_MAX:]))

    rotated, formers = until_won(world, f"topic {topic}", lambda: _rotate(world, topic, name, secret, change, if_match))
    ends_at = formers[-1].until if formers and grace_s else None
    return rotated, ends_at if ends_at is not None and ends_at > world.clock.now() else None


def _rotate(
    world: World,
    topic: str,
    name: str,
    secret: str,
    change: Callable[[SubscriptionSettings], SubscriptionSettings],
    if_match: int | None,
) -> tuple[Subscription, Sequence[FormerSecret]]:
    known = get_subscription(world, topic, name)
    if known.settings.endpoint.protocol not in (Protocol.HTTP, Protocol.HTTPS):
        raise ConflictError("secrets are allowed only for pushes over HTTP")
    check_version(known, if_match)
    present = open_secrets(world, known).settings
    changed = present if present.secret == secret else change(present)
    if changed is present:
        return known, changed.formers
    try:
        return put_subscription(world, topic, name, changed, known.version)[0], changed.formers
    except PreconditionFailedError:
        raise ConditionLostError from None
