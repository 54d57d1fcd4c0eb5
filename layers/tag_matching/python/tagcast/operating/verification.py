"""Endpoint verification (docs/semantics.md): stores subscriptions with verified endpoints; repeats verifications."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from tagcast.concurrency.contention import until_won
from tagcast.errors import (
    ConditionLostError,
    ConflictError,
    Fault,
    FaultCode,
    InvalidRequestError,
    NotFoundError,
    PreconditionFailedError,
    UnavailableError,
)
from tagcast.model import Subscription, SubscriptionSettings
from tagcast.operating.lanes import retry_now
from tagcast.ports import World
from tagcast.registry.directory import read_topic
from tagcast.registry.subscribing import (
    VERIFICATION,
    Result,
    StoredSubscription,
    SubscriptionRequest,
    check_time,
    check_version,
    has_endpoint,
    keep_verification,
    put_subscriptions,
)
from tagcast.registry.subscriptions import change_subscription, get_subscription, put_subscription
from tagcast.rows import stored
from tagcast.sealing import keep_secrets, open_secrets
from tagcast.subscription_settings import UNVERIFIED, Signature
from tagcast.verification import VERIFIABLE, VerificationResult

ASKED_WITHIN_S = 8.0
"""A request starts no further verification after 8 s, because a verification may take ten seconds."""


def needs_verification(world: World, wanted: SubscriptionRequest, known: Subscription | None) -> bool:
    """Return whether *wanted* or the deployment requires a verification of the endpoint.

    If *known* has the same endpoint, the result for *known* counts, without a new verification. Raises
    InvalidRequestError if *wanted* asks for ``none``, but this deployment verifies all endpoints.
    """
    if world.verification.is_optional:
        if wanted.verification is not None:
            return wanted.verification == "required"
        return known is not None and (known.settings.unverified is not None or has_endpoint(known, wanted.settings))
    if wanted.verification == "none":
        raise InvalidRequestError(
            (Fault("this deployment verifies every endpoint", "/verification", FaultCode.REFUSED),)
        )
    return True


def put_verified(world: World, topic: str, wanted: SubscriptionRequest) -> tuple[Subscription, bool]:
    """Store a subscription like :func:`put_subscription`; first verify an endpoint that must be verified.

    If the endpoint does not confirm, the subscription is still stored, but gets no pushes until the endpoint confirms.
    """
    read_topic(world, topic)
    known = stored.subscription(world.store, topic, wanted.name)
    check_version(known, wanted.if_match)
    ready = _verify_endpoint(world, wanted, known)
    made = put_subscription(world, topic, ready.name, ready.settings, ready.if_match, keeps=ready.keeps)
    _wake_if_it_waited(world, known, made[0])
    return made


def change_verified(
    world: World,
    topic: str,
    name: str,
    change: Callable[[Subscription], SubscriptionSettings],
    if_match: int | None = None,
    *,
    verification: str | None = None,
) -> Subscription:
    """Read a subscription, and store the settings that *change* returns for it, as :func:`put_verified` does.

    *if_match* is the required current version; None allows any. Raises NotFoundError and the errors of
    :func:`put_verified`.
    """

    def attempt() -> Subscription:
        known = get_subscription(world, topic, name)
        check_version(known, if_match)
        settings = change(known)
        try:
            wanted = SubscriptionRequest(name, settings, known.version, verification=verification)
            return put_verified(world, topic, wanted)[0]
        except PreconditionFailedError:
            raise ConditionLostError from None

    return until_won(world, f"topic {topic}", attempt)


def put_all_verified(world: World, topic: str, wanted: Sequence[SubscriptionRequest], came_s: float) -> list[Result]:
    """Verify the endpoints that must be verified, then store the subscriptions like :func:`put_subscriptions`.

    The request arrived at *came_s* (monotonic). Raises NotFoundError (topic).
    """
    read_topic(world, topic)
    known = stored.subscriptions(world.store, topic, [each.name for each in wanted])
    results: dict[str, Result] = {}
    ready: list[SubscriptionRequest] = []
    for each in wanted:
        before = known.get(each.name)
        try:
            check_version(before, each.if_match)
            ready.append(_verify_endpoint(world, each, before, came_s + ASKED_WITHIN_S))
        except (InvalidRequestError, PreconditionFailedError, UnavailableError) as refusal:
            results[each.name] = refusal
    made = put_subscriptions(world, topic, ready, came_s)
    results |= {each.name: result for each, result in zip(ready, made, strict=True)}
    for result in made:
        if isinstance(result, StoredSubscription):
            _wake_if_it_waited(world, known.get(result.subscription.name), result.subscription)
    return [results[each.name] for each in wanted]


def _verify_endpoint(
    world: World, wanted: SubscriptionRequest, known: Subscription | None, until_s: float = math.inf
) -> SubscriptionRequest:
    """Return *wanted* with the known result of an unchanged endpoint, or with the result of a new verification.

    Raises UnavailableError after *until_s* (monotonic). The verification request is signed with the secrets of later
    pushes, including unchanged secrets of *known*.
    """
    if not needs_verification(world, wanted, known):
        return wanted
    settings = wanted.settings
    if has_endpoint(known, settings):
        return replace(wanted, settings=keep_verification(settings, known), keeps=wanted.keeps | {VERIFICATION})
    if settings.endpoint.protocol not in VERIFIABLE:
        return wanted
    check_time(world, until_s)  # The look-up of the name may take seconds, too.
    refusal = world.guard.refusal(settings.endpoint)
    if refusal is not None:  # The endpoint may still be stored: storing repeats the DNS look-up.
        return replace(wanted, settings=_as_answered(settings, VerificationResult(refusal)))
    if known is None:
        return replace(wanted, settings=_as_answered(settings, _ask(world, settings, None)))
    to_come = replace(known, settings=keep_secrets(world, settings, known, wanted.keeps))
    consent = _ask(world, open_secrets(world, to_come).settings, known.subscription_id)
    return replace(wanted, settings=_as_answered(settings, consent))


def _wake_if_it_waited(world: World, known: Subscription | None, put: Subscription) -> None:
    """Wake the lane of *put* if *known* was unverified, or if it was verified but its lane was not woken."""
    if known is not None and (known.settings.unverified is not None or _is_held(world, put)):
        wake(world, put)


def _is_held(world: World, subscription: Subscription) -> bool:
    """Return whether the head of the lane still waits for the verification. Without a wake-up it waits until expiry."""
    heads = stored.dues(world.store, subscription.subscription_id, limit=1)
    return any(head.last_outcome == UNVERIFIED for head in heads)


def verify(world: World, topic: str, name: str) -> Subscription:
    """Verify an unverified endpoint again. If the endpoint confirms, the lane of its subscription continues.

    A call may be repeated: the lane also continues if an earlier call failed after the endpoint was verified. Raises
    NotFoundError, and UnavailableError while the subscription's secrets cannot be decrypted.
    """
    known = get_subscription(world, topic, name)
    if known.settings.unverified is None:
        _wake_if_it_waited(world, known, known)
        return known
    consent = _ask(world, open_secrets(world, known).settings, known.subscription_id)

    def record_answer(present: SubscriptionSettings) -> SubscriptionSettings:
        if present.endpoint != known.settings.endpoint or present.unverified is None:
            return present  # Another request replaced or verified the endpoint meanwhile.
        return _as_answered(present, consent)

    changed = change_subscription(world, topic, name, record_answer)
    if consent.refusal is None:
        wake(world, changed)
    return changed


def wake(world: World, subscription: Subscription) -> None:
    """Retry the lane of *subscription* now, unless its endpoint is unverified or the lane is paused or suspended."""
    if subscription.settings.unverified is None:
        with suppress(ConflictError, NotFoundError):
            retry_now(world, subscription.topic, subscription.name)


def _ask(world: World, settings: SubscriptionSettings, subscription_id: str | None) -> VerificationResult:
    if settings.signature is Signature.V1A and subscription_id is not None:
        world.signer.prepare()
    return world.verification.verifier.ask(settings, world.dice.secret(), subscription_id)


def _as_answered(settings: SubscriptionSettings, consent: VerificationResult) -> SubscriptionSettings:
    return replace(settings, unverified=consent.refusal, allowed_per_second=consent.per_second)
