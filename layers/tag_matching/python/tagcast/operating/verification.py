"""Use cases of endpoint verification: put a subscription whose endpoint has agreed, or waits; ask once more.

See docs/semantics.md, Endpoint verification.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tagcast.errors import ConflictError, Fault, InvalidRequestError, NotFoundError
from tagcast.model import Subscription, SubscriptionSettings
from tagcast.operating.lanes import retry_now
from tagcast.ports import World
from tagcast.registry.directory import read_topic
from tagcast.registry.subscriptions import change_subscription, get_subscription, put_subscription
from tagcast.rows import stored
from tagcast.sealing.secrets import opened
from tagcast.settings import Signature
from tagcast.verification import VERIFIABLE, Consent


def has_to_agree(world: World, wanted: str | None) -> bool:
    """Say whether an endpoint is asked whose subscriber wants it *required*, *none*, or as the deployment has it.

    Raises InvalidRequestError if this deployment asks all of them.
    """
    if world.verification.is_optional:
        return wanted == "required"
    if wanted == "none":
        raise InvalidRequestError((Fault("this deployment verifies every endpoint", "/verification"),))
    return True


def put_verified(
    world: World, topic: str, name: str, settings: SubscriptionSettings, if_match: int | None = None, *, asks: bool
) -> tuple[Subscription, bool]:
    """Put a subscription as :func:`put_subscription` does; if it *asks*, an endpoint that is new to it has to agree.

    One that did not is subscribed, and is pushed nothing until it does.
    """
    read_topic(world, topic)
    known = stored.subscription(world.store, topic, name)
    before = None if known is None else known.settings
    if not asks:
        pass
    elif before is not None and before.endpoint == settings.endpoint:
        chosen = replace(settings, unverified=before.unverified, allowed_per_second=before.allowed_per_second)
        settings = _limited(chosen)
    elif settings.endpoint.protocol in VERIFIABLE and world.guard.refusal(settings.endpoint) is None:
        settings = _as_answered(settings, _asked(world, settings))
    made = put_subscription(world, topic, name, settings, if_match)
    if before is not None and before.unverified is not None:
        wake(world, made[0])
    return made


def verify(world: World, topic: str, name: str) -> Subscription:
    """Ask the endpoint once more if it has not agreed yet; if it does, what waits for it goes on.

    Raises NotFoundError, and UnavailableError while its secrets cannot be read.
    """
    known = get_subscription(world, topic, name)
    if known.settings.unverified is None:
        return known
    consent = _asked(world, opened(world, known).settings)

    def answered(present: SubscriptionSettings) -> SubscriptionSettings:
        return _as_answered(present, consent) if present.endpoint == known.settings.endpoint else present

    changed = change_subscription(world, topic, name, answered)
    wake(world, changed)
    return changed


def wake(world: World, subscription: Subscription) -> None:
    """Let the lane of a subscription whose endpoint may be pushed to go on; one that is paused stays so."""
    if subscription.settings.unverified is None:
        with suppress(ConflictError, NotFoundError):
            retry_now(world, subscription.topic, subscription.name)


def _asked(world: World, settings: SubscriptionSettings) -> Consent:
    if settings.signature is Signature.V1A:
        world.signer.prepare()
    return world.verification.verifier.ask(settings, world.dice.secret())


def _as_answered(settings: SubscriptionSettings, consent: Consent) -> SubscriptionSettings:
    return _limited(replace(settings, unverified=consent.refusal, allowed_per_second=consent.per_second))


def _limited(settings: SubscriptionSettings) -> SubscriptionSettings:
    """Return *settings* with no higher rate than the endpoint agreed to."""
    rates = [each for each in (settings.max_per_second, settings.allowed_per_second) if each is not None]
    return replace(settings, max_per_second=min(rates, default=None))
