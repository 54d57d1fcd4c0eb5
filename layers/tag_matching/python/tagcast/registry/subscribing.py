"""Stores one or many subscriptions. Each is validated on its own; up to 19 are stored in one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tagcast.concurrency.contention import until_won
from tagcast.errors import (
    ConflictError,
    Fault,
    FaultCode,
    InvalidFilterError,
    InvalidRequestError,
    PreconditionFailedError,
    UnavailableError,
)
from tagcast.filters.function_filter import is_function
from tagcast.filters.index.parted_index import unindexed_characters
from tagcast.filters.kinds import canonical
from tagcast.model import Endpoint, LaneState, Protocol, Subscription, SubscriptionSettings, Topic
from tagcast.ports import World, Write
from tagcast.registry.directory import read_topic, wait_for_publishers
from tagcast.registry.filter_history import let_expire
from tagcast.registry.groups import count_filling, lane_to_fill, make_queue, with_secret
from tagcast.rows import stored
from tagcast.rows.due import appended_after
from tagcast.rows.lane import Lane
from tagcast.rows.lane_transitions import append_after, lane_put
from tagcast.rows.subscription import subscription_put, version_put
from tagcast.rows.topic import change_update
from tagcast.sealing import keep_secrets, seal_secrets
from tagcast.tables import fitting

SUBSCRIPTIONS_MAX = 100_000
"""The maximum of subscriptions of a topic. Without sections of state maps, the maximum would be lower."""
UNINDEXED_MAX = 1_000_000
"""The maximum of :func:`unindexed_characters` of a topic: 160 MB in each process, of the 512 MB of a function."""
PUT_TOGETHER = 19
"""The maximum of subscriptions in a transaction. Each takes up to five writes, and DynamoDB accepts 100 in all."""
FILTER_BYTES_MAX = 1024 * 1024
"""The maximum bytes of filters in a transaction. Each filter is written twice, and DynamoDB accepts 4 MiB."""
BEGUN_WITHIN_S = 20.0
"""A request stores no further subscriptions after 20 s, because it must answer within 29 s."""

VERIFICATION = "verification"
NO_VERSION = 0
"""The version of a missing subscription; versions count from 1."""


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """A requested subscription. *if_match* is the required current version; None allows any.

    :data:`NO_VERSION` as *if_match* means that the subscription must not exist. *keeps* has the names of the fields
    whose stored secrets stay. It also has :data:`VERIFICATION` if the verification of an unchanged endpoint stays.
    *verification* is ``required``, ``none``, or None for the default.
    """

    name: str
    settings: SubscriptionSettings
    if_match: int | None = None
    keeps: frozenset[str] = frozenset()
    verification: str | None = None


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    """A stored subscription, and whether it is new.

    *lane* is the lane of a new group that gets older messages; None for any other subscription.
    """

    subscription: Subscription
    is_new: bool
    lane: Lane | None = None


Refusal = ConflictError | UnavailableError | InvalidRequestError
"""The reason why one subscription was not stored. Other subscriptions of the request may be stored."""
Result = StoredSubscription | Refusal | InvalidFilterError


def put_subscriptions(world: World, topic: str, wanted: Sequence[SubscriptionRequest], came_s: float) -> list[Result]:
    """Store each of *wanted*, at most 100 with distinct names; return their results or refusals, in their order.

    The request arrived at *came_s* (monotonic). Raises NotFoundError (topic).
    """
    results: dict[str, Result] = {}
    valid: list[SubscriptionRequest] = []
    known = stored.subscriptions(world.store, topic, [each.name for each in wanted])
    for each in wanted:
        try:
            check_time(world, came_s + BEGUN_WITHIN_S)
            valid.append(validate(world, topic, each, known.get(each.name)))
        except (InvalidFilterError, InvalidRequestError, UnavailableError) as refusal:
            results[each.name] = refusal
    for group in fitting(valid, PUT_TOGETHER, FILTER_BYTES_MAX, lambda each: len(json.dumps(each.settings.filter))):
        made = _put(world, topic, group, came_s + BEGUN_WITHIN_S)
        results |= {each.name: result for each, result in zip(group, made, strict=True)}
    wait_for_publishers(world)
    return [results[each.name] for each in wanted]


def check_time(world: World, until_s: float) -> None:
    """Raise UnavailableError after *until_s* (monotonic), because the remaining work needs another request."""
    if world.clock.monotonic() >= until_s:
        raise UnavailableError("the request ran out of time; send it again")


def _put(
    world: World, topic: str, group: Sequence[SubscriptionRequest], until_s: float
) -> Sequence[StoredSubscription | Refusal]:
    try:
        check_time(world, until_s)
        return put_together(world, topic, group)
    except UnavailableError as refusal:
        return [refusal] * len(group)


def validate(world: World, topic: str, wanted: SubscriptionRequest, known: Subscription | None) -> SubscriptionRequest:
    """Return the request *wanted* with its filter in canonical form. Raises InvalidFilterError, InvalidRequestError.

    *known* is the subscription that the request will replace; None if there is none. The endpoint is checked only if
    it differs from that of *known*, because the look-up of its name may take seconds. A stored endpoint is checked at
    every push.
    """
    settings = replace(wanted.settings, filter=valid_filter(world, wanted.settings.filter))
    if settings.dead_letter_topic == topic:
        raise InvalidRequestError((Fault("is the topic itself", "/dead_letter_topic", FaultCode.CONFLICT),))
    refusal = None if has_endpoint(known, settings) else world.guard.refusal(settings.endpoint)
    if refusal is not None:
        raise InvalidRequestError((Fault(refusal, "/endpoint", FaultCode.REFUSED),))
    return replace(wanted, settings=settings)


def valid_filter(world: World, filter: Mapping[str, object] | None) -> dict[str, object] | None:
    """Return *filter* in its canonical form. None stands for no filter, and is returned unchanged.

    Raises InvalidFilterError for an invalid filter, and for a function that the guard refuses.
    """
    made = canonical(filter)
    if made is not None and made["kind"] == "function":
        refusal = world.guard.refusal(Endpoint(Protocol.LAMBDA, str(made["function"])))
        if refusal is not None:
            raise InvalidFilterError((Fault(refusal, "/function", FaultCode.REFUSED),))
    return made


def put_together(
    world: World, topic: str, wanted: Sequence[SubscriptionRequest], also: Callable[[Subscription], Write] | None = None
) -> list[StoredSubscription | Refusal]:
    """Store *wanted*, results of :func:`validate` with distinct names, in one transaction. Return results or refusals.

    A refused subscription does not stop the others. For each stored one the transaction includes the write that *also*
    returns. Each raises the topic's version by one, so the topic's row lists every change. Raises NotFoundError (topic)
    and UnavailableError; then nothing is stored.
    """

    def attempt() -> list[StoredSubscription | Refusal]:
        owner = read_topic(world, topic)
        known = stored.subscriptions(world.store, topic, [each.name for each in wanted])
        results: list[StoredSubscription | Refusal] = []
        after, writes = owner, list[Write]()
        for each in wanted:
            try:
                made, after, its = _prepare(world, after, each, known.get(each.name))
            except (ConflictError, UnavailableError, InvalidRequestError) as refusal:
                results.append(refusal)
                continue
            writes += its if also is None else (*its, also(made.subscription))
            results.append(made)
        if after is not owner:
            world.store.transact((_topic_update(owner, after, results), *writes))
        return results

    results = until_won(world, f"topic {topic}", attempt)
    for made in results:
        if isinstance(made, StoredSubscription):
            if made.lane is not None:
                world.workflow.start(topic, made.lane.subscription_id, made.lane.generation)
            if not made.is_new:
                let_expire(world, made.subscription)
    return results


def update_counts(owner: Topic, after: SubscriptionSettings | None, known: Subscription | None) -> Topic:
    """Return the topic *owner* with the next version, and with its counts after a change of one subscription.

    The settings *after* replace the subscription *known*. *known* is None for a new subscription, and *after* is None
    for a deletion. Raises ConflictError if the topic then has too many subscriptions, or too long filters.
    """
    added = int(known is None) - int(after is None)
    new, old = None if after is None else after.filter, None if known is None else known.settings.filter
    grown = 0 if new == old else unindexed_characters(new) - unindexed_characters(old)
    total = owner.unindexed_characters + grown
    if added > 0 and owner.subscription_count >= SUBSCRIPTIONS_MAX:
        raise ConflictError(f"a topic has at most {SUBSCRIPTIONS_MAX} subscriptions")
    if grown > 0 and total > UNINDEXED_MAX:
        raise ConflictError(
            f"the SQL92 filters of a topic that no index decides have at most {UNINDEXED_MAX} characters in all, "
            f"and would have {total}. Comparisons of properties with values, joined by AND, do not count"
        )
    return replace(
        owner,
        subscriptions_version=owner.subscriptions_version + 1,
        subscription_count=owner.subscription_count + added,
        next_ordinal=owner.next_ordinal + max(added, 0),
        unindexed_characters=total,
    )


def _topic_update(owner: Topic, after: Topic, results: Sequence[StoredSubscription | Refusal]) -> Write:
    names = [made.subscription.name for made in results if isinstance(made, StoredSubscription)]
    return change_update(owner, *names, after=after)


def _prepare(
    world: World, owner: Topic, wanted: SubscriptionRequest, known: Subscription | None
) -> tuple[StoredSubscription, Topic, tuple[Write, ...]]:
    """Return the result of *wanted*, the topic after it, and its writes. *owner* has the counts before *wanted*."""
    check_version(known, wanted.if_match)
    after = update_counts(owner, wanted.settings, known)
    if known is None:
        after = count_filling(world, after, wanted.settings)
    with_secrets = keep_secrets(world, wanted.settings, known, wanted.keeps - {VERIFICATION})
    settings = keep_verification(with_secrets, known) if VERIFICATION in wanted.keeps else with_secrets
    changed = _next_version(world, owner, wanted.name, with_secret(world, settings, known), known)
    changed, secrets = seal_secrets(world, changed, known)
    if changed.settings.is_group:
        make_queue(world, changed)
    lane = lane_to_fill(world, owner, changed) if known is None else None
    filled: tuple[Write, ...] = () if lane is None else (lane_put(lane),)
    if known is not None and known.settings.is_independent and not changed.settings.is_independent:
        filled = _order_backlog(world, known)
    made = StoredSubscription(changed, known is None, lane)
    return made, after, (*_put_writes(owner, changed, known), *secrets, *filled)


def keep_verification(settings: SubscriptionSettings, known: Subscription | None) -> SubscriptionSettings:
    """Return *settings* with the result of the verification of *known*, if both have the same endpoint."""
    if known is None or not has_endpoint(known, settings):
        return settings
    before = known.settings
    return replace(settings, unverified=before.unverified, allowed_per_second=before.allowed_per_second)


def has_endpoint(known: Subscription | None, settings: SubscriptionSettings) -> bool:
    """Return whether *known* exists and has the endpoint of *settings*."""
    return known is not None and known.settings.endpoint == settings.endpoint


def _order_backlog(world: World, known: Subscription) -> tuple[Write, ...]:
    """Return the write that makes new messages join after the independent deliveries; none if the lane is active."""
    lane = stored.lane(world.store, known.topic, known.subscription_id)
    if lane is None or lane.state is LaneState.REMOVED:
        return ()
    return (append_after(lane, appended_after(world.clock.now())),)


def replace_filter(
    world: World, known: Subscription, filter: Mapping[str, object] | None, *also: Write
) -> Subscription:
    """Store *filter* as a new version of the subscription *known*, with the writes *also* in the same transaction.

    Return the changed subscription when no publish uses the old filter any more. Raises ConditionLostError on a
    concurrent change.
    """
    settings = replace(known.settings, filter=valid_filter(world, filter))
    owner = read_topic(world, known.topic)
    changed = _next_version(world, owner, known.name, settings, known)
    after = update_counts(owner, settings, known)
    world.store.transact((change_update(owner, known.name, after=after), *_put_writes(owner, changed, known), *also))
    let_expire(world, changed)
    wait_for_publishers(world)
    return changed


def check_version(known: Subscription | None, if_match: int | None) -> None:
    """Raise PreconditionFailedError if *known* does not have the version *if_match*; None allows any version."""
    present = NO_VERSION if known is None else known.version
    if if_match is not None and present != if_match:
        reason = f"has version {present}" if if_match else "exists already"
        raise PreconditionFailedError(f"the subscription {reason if present else 'does not exist'}")


def _next_version(
    world: World, owner: Topic, name: str, settings: SubscriptionSettings, known: Subscription | None
) -> Subscription:
    now = world.clock.now()
    made = Subscription(
        topic=owner.name,
        name=name,
        topic_id=owner.topic_id,
        ordinal=owner.next_ordinal if known is None else known.ordinal,
        settings=settings,
        # A subscription that is created again has a version above all versions of the former one.
        version=owner.subscriptions_version + 1 if known is None else known.version + 1,
        created_at=now if known is None else known.created_at,
        updated_at=now,
        function_until=None if known is None else known.function_until,
    )
    is_replaced = known is not None and is_function(known.settings.filter) and not is_function(settings.filter)
    return replace(made, function_until=now) if is_replaced else made


def _put_writes(owner: Topic, changed: Subscription, known: Subscription | None) -> tuple[Write, ...]:
    return subscription_put(changed, known), version_put(changed, owner.subscriptions_version + 1)
