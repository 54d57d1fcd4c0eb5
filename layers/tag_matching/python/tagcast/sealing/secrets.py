"""How secrets of a subscription are sealed with what it is put with, and opened again.

See docs/protocol.md, Secrets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tagcast.errors import Fault, FaultCode, InvalidRequestError, UnavailableError
from tagcast.model import Subscription, SubscriptionSettings
from tagcast.ports import World, Write
from tagcast.rows.sealed import (
    SECRETS,
    Sealed,
    formers_text,
    plain_text,
    sealed_delete,
    sealed_puts,
    with_plain_text,
    without_secrets,
)
from tagcast.settings import Protocol, has_secrets

KEPT = frozenset(("secret", "headers", "client_certificate"))
"""What nobody is shown, and stays where a request leaves it out."""
OPENED_S = 900.0
"""A process knows secrets for 15 minutes after it opened them: that bounds what decryption costs, and how old they
may be."""
OPENED_MAX = 4_000
"""Each has at most 16 KiB, with a client certificate."""


_SIGNING = "v1."
"""Begins the token of what is sealed if pushes are signed by a secret in it: so much is known without opening it."""


def is_signed_by_secret(settings: SubscriptionSettings) -> bool:
    """Say whether pushes with these *settings* are signed by a secret, sealed or not; those of a group are none."""
    if settings.sealed is not None:
        return settings.sealed.startswith(_SIGNING)
    return settings.secret is not None and not settings.is_group


@dataclass(slots=True)
class _Known:
    """Secrets, present and exchanged ones, when they were opened on the monotonic clock, and for which one last.

    *last* is a subscription as it was read, and the same with its secrets.
    """

    opened_s: float
    plain: bytes
    formers: bytes | None
    last: tuple[Subscription, Subscription] | None = None

    def given_to(self, subscription: Subscription) -> Subscription:
        """Return *subscription* with these secrets."""
        if self.last is None or self.last[0] is not subscription:
            settings = replace(with_plain_text(subscription.settings, self.plain, self.formers), sealed=None)
            self.last = subscription, replace(subscription, settings=settings)
        return self.last[1]


class Opened(dict[str, _Known]):
    """What this process opened, by the token of the secrets."""


def sealed(world: World, changed: Subscription, known: Subscription | None) -> tuple[Subscription, tuple[Write, ...]]:
    """Return *changed*, which takes the place of *known*, as it is stored, and the writes that keep its secrets.

    What was sealed before and is kept stays as it is. Raises UnavailableError.
    """
    before = None if known is None else known.settings
    if changed.settings.is_group or (before is not None and before.sealed == changed.settings.sealed is not None):
        return changed, ()
    if not has_secrets(changed.settings):
        was_sealed = before is not None and before.sealed is not None
        return changed, (sealed_delete(changed.topic, changed.name),) if was_sealed else ()
    made = _seal(world, changed)
    kept = replace(without_secrets(changed.settings), sealed=made.token)
    return replace(changed, settings=kept), sealed_puts(changed.topic, changed.name, made)


def keeping(
    world: World, settings: SubscriptionSettings, known: Subscription | None, names: Collection[str]
) -> SubscriptionSettings:
    """Return *settings* with those secrets of *known* that are among *names*: what a request leaves out stays.

    They stay sealed unless the request gives others beside them, or pushes go another way. Raises InvalidRequestError
    where pushes go a way that has no such secret, and UnavailableError.
    """
    if known is None or known.settings.sealed is None or settings.is_group or not names:
        return settings
    before = known.settings
    if KEPT.issubset(names) and before.endpoint.protocol is settings.endpoint.protocol:
        return replace(settings, client_certificate=before.client_certificate, sealed=before.sealed)
    present = opened(world, known).settings
    if "secret" in names:
        settings = replace(settings, secret=present.secret, formers=present.formers)
    if "headers" in names:
        settings = replace(settings, headers=present.headers)
    if "client_certificate" in names:
        settings = replace(settings, client_certificate=present.client_certificate, client_key=present.client_key)
    _check_way(settings)
    return settings


def _check_way(settings: SubscriptionSettings) -> None:
    """Raise InvalidRequestError if pushes with these *settings* go a way that has no headers, or no certificate."""
    protocol, faults = settings.endpoint.protocol, []
    if settings.headers and protocol not in (Protocol.HTTP, Protocol.HTTPS):
        faults.append(
            Fault("headers are allowed only for pushes over HTTP; null removes them", "/headers", FaultCode.CONFLICT)
        )
    if settings.client_key and protocol is not Protocol.HTTPS:
        detail = "a client certificate is allowed only for pushes over https; null removes it"
        faults.append(Fault(detail, "/client_certificate", FaultCode.CONFLICT))
    if faults:
        raise InvalidRequestError(tuple(faults))


def opened(world: World, subscription: Subscription) -> Subscription:
    """Return *subscription* with its secrets at hand, decrypted unless this process did that a short while ago.

    Raises UnavailableError while they cannot be read.
    """
    ready = at_hand(world, subscription)
    if ready is not None:
        return ready
    token = subscription.settings.sealed
    assert token is not None
    row = SECRETS.read(world.store, subscription.topic, subscription.name)
    if row is None:  # They went with a later version of the subscription, which is read at the next look.
        raise UnavailableError("the subscription's secrets are gone")
    context = _context(subscription)
    formers = None if row.formers is None else world.vault.open(row.formers, context)
    known = _Known(world.clock.monotonic(), world.vault.open(row.content, context), formers)
    _keep(world, token, known)
    return known.given_to(subscription)


def at_hand(world: World, subscription: Subscription) -> Subscription | None:
    """Return what :func:`opened` does if it answers at once."""
    token = subscription.settings.sealed
    if token is None:
        return subscription
    known = world.memory.of(Opened).get(token)
    if known is None or world.clock.monotonic() >= known.opened_s + OPENED_S:
        return None
    return known.given_to(subscription)


def _keep(world: World, token: str, known: _Known) -> None:
    """Remember secrets, and forget those that were opened too long ago: they stand first."""
    kept = world.memory.of(Opened)
    kept.pop(token, None)
    if len(kept) >= OPENED_MAX:
        kept.clear()
    while (first := next(iter(kept), None)) is not None:
        oldest = kept.get(first)
        if oldest is not None and known.opened_s < oldest.opened_s + OPENED_S:
            break
        kept.pop(first, None)
    kept[token] = known


def _seal(world: World, subscription: Subscription) -> Sealed:
    settings, context = subscription.settings, _context(subscription)
    token, content = world.dice.unique_id(world.clock.now()), world.vault.seal(plain_text(settings), context)
    token = token if settings.secret is None else _SIGNING + token
    if not settings.formers:
        return Sealed(token, content)
    formers = world.vault.seal(formers_text(settings), context)
    return Sealed(token, content, formers, max(former.until for former in settings.formers))


def _context(subscription: Subscription) -> Mapping[str, str]:
    return {"topic": subscription.topic, "subscription": subscription.name}
