"""The use case of rotating a subscription's secret. For a grace period, the previous secret signs pushes, too."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256

from tagcast.concurrency.contention import until_won
from tagcast.errors import ConditionLostError, ConflictError, PreconditionFailedError
from tagcast.model import Protocol, Subscription, SubscriptionSettings
from tagcast.ports import World
from tagcast.registry.subscriptions import get_subscription, put_subscription
from tagcast.sealing.secrets import open_secrets
from tagcast.settings import FormerSecret

GRACE_S_MAX = 7 * 86_400
FORMERS_MAX = 3
"""At most 3 previous secrets sign beside the current secret. The oldest secrets are dropped."""


def generated_secret(world: World) -> str:
    """Return a new secret of 256 bits in its text form."""
    return f"whsec_{b64encode(sha256(world.dice.secret().encode()).digest()).decode()}"


def rotate_secret(
    world: World, topic: str, name: str, secret: str, grace_s: int, if_match: int | None = None
) -> tuple[Subscription, int | None]:
    """Rotate the subscription's secret. Return the subscription, and when the previous secret expires, or None.

    Rotating to the current secret changes nothing, so a call can be repeated. Raises NotFoundError, ConflictError
    (pushes do not use HTTP), PreconditionFailedError, UnavailableError.
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
    if if_match is not None and known.version != if_match:
        raise PreconditionFailedError(f"the subscription has version {known.version}")
    present = open_secrets(world, known).settings
    changed = present if present.secret == secret else change(present)
    if changed is present:
        return known, changed.formers
    try:
        return put_subscription(world, topic, name, changed, known.version)[0], changed.formers
    except PreconditionFailedError:
        raise ConditionLostError from None
