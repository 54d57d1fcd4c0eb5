"""Encrypts the secrets of a subscription for storage, and decrypts them (docs/protocol.md, Secrets)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tagcast.errors import Fault, FaultCode, InvalidRequestError, ReplacedError
from tagcast.model import Subscription, SubscriptionSettings
from tagcast.ports import Clock, World, Write
from tagcast.rows.host import host_of
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
from tagcast.subscription_settings import Endpoint, Protocol, has_secrets

KEPT = frozenset(("secret", "headers", "client_certificate"))
"""The write-only fields. An update that leaves one out does not change its value."""
OPENED_S = 900.0
"""A process caches decrypted secrets for 15 minutes, to limit both the cost of decryption and their age."""
OPENED_MAX = 4_000
"""The maximum of subscriptions with cached secrets. The secrets of a subscription take at most 16 KiB."""


_SIGNING = "v1."
"""The prefix of a token if its sealed secrets include a signing secret. So readers know this without decryption."""


def is_signed_by_secret(settings: SubscriptionSettings) -> bool:
    """Return whether a secret, sealed or not, signs pushes with these *settings*. Always false for a group."""
    if settings.sealed is not None:
        return settings.sealed.startswith(_SIGNING)
    return settings.secret is not None and not settings.is_group


@dataclass(slots=True)
class _Known:
    """The current and previous secrets of a subscription, and the time of their decryption on both clocks.

    *last* has the last argument of :meth:`given_to` and its result, so the same subscription is not built twice.
    """

    opened_s: float
    opened_at: int
    plain: bytes
    formers: bytes | None
    last: tuple[Subscription, Subscription] | None = None

    def is_recent(self, clock: Clock) -> bool:
        """Return whether the secrets may still be used. One clock may stop while the process is frozen."""
        since_ms = clock.now() - self.opened_at
        return clock.monotonic() < self.opened_s + OPENED_S and 0 <= since_ms < OPENED_S * 1000

    def given_to(self, subscription: Subscription) -> Subscription:
        """Return *subscription* with these secrets."""
        if self.last is None or self.last[0] is not subscription:
            settings = replace(with_plain_text(subscription.settings, self.plain, self.formers), sealed=None)
            self.last = subscription, replace(subscription, settings=settings)
        return self.last[1]


class OpenedSecrets(dict[str, _Known]):
    """This process's decrypted secrets, by the value of the subscription's setting *sealed*."""


def seal_secrets(
    world: World, changed: Subscription, known: Subscription | None
) -> tuple[Subscription, tuple[Write, ...]]:
    """Return *changed* with its secrets sealed, and the writes that store the sealed secrets.

    *known* is the stored subscription that *changed* replaces; None for a new subscription. Secrets that are still
    sealed are not sealed again. Raises UnavailableError.
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


def keep_secrets(
    world: World, settings: SubscriptionSettings, known: Subscription | None, names: Collection[str]
) -> SubscriptionSettings:
    """Return *settings* with the secrets of *known* in the fields *names*, which an update left out.

    If the update keeps the current secret, it also keeps the previous secrets. The secrets stay sealed unless the
    update names a secret or changes the host of the endpoint. Raises InvalidRequestError if the new protocol does not
    allow a kept field, or a new host would get kept headers, and UnavailableError if the secrets cannot be decrypted.
    """
    if known is None or known.settings.sealed is None or settings.is_group or not (names or settings.secret):
        return settings
    before = known.settings
    if KEPT.issubset(names) and host_of(before.endpoint) == host_of(settings.endpoint):
        return replace(settings, client_certificate=before.client_certificate, sealed=before.sealed)
    present = open_secrets(world, known).settings
    if "secret" in names:
        settings = replace(settings, secret=present.secret)
    if settings.secret == present.secret:
        settings = replace(settings, formers=present.formers)
    if "headers" in names:
        settings = replace(settings, headers=present.headers)
    if "client_certificate" in names:
        settings = replace(settings, client_certificate=present.client_certificate, client_key=present.client_key)
    _check_way(settings)
    if "headers" in names:
        check_host(settings.headers or (), before.endpoint, settings.endpoint)
    return settings


def check_host(kept: Collection[str], before: Endpoint, after: Endpoint) -> None:
    """Raise InvalidRequestError if the headers *kept* would go to another host than before.

    Answers never show the values of headers. So a caller who does not know the values must not redirect them to another
    host.
    """
    if kept and host_of(before) != host_of(after):
        detail = "is required, because the endpoint has another host; give the headers again, or null to remove them"
        raise InvalidRequestError((Fault(detail, "/headers", FaultCode.REQUIRED),))


def _check_way(settings: SubscriptionSettings) -> None:
    """Raise InvalidRequestError if the endpoint's protocol does not allow the headers or the certificate."""
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


def open_secrets(world: World, subscription: Subscription) -> Subscription:
    """Return *subscription* with its secrets, from the cache or decrypted.

    Raises UnavailableError while the secrets cannot be decrypted. Raises ReplacedError if *subscription* is an older
    version.
    """
    ready = cached_secrets(world, subscription)
    if ready is not None:
        return ready
    token = subscription.settings.sealed
    assert token is not None
    row = SECRETS.read(world.store, subscription.topic, subscription.name)
    if row is None or row.token != token:
        raise ReplacedError("the subscription's secrets were replaced")
    context = _context(subscription)
    formers = None if row.formers is None else world.vault.open(row.formers, context)
    known = _Known(world.clock.monotonic(), world.clock.now(), world.vault.open(row.content, context), formers)
    _keep(world, token, known)
    return known.given_to(subscription)


def cached_secrets(world: World, subscription: Subscription) -> Subscription | None:
    """Return the result of :func:`open_secrets` if it needs no decryption; else None."""
    token = subscription.settings.sealed
    if token is None:
        return subscription
    known = world.memory.of(OpenedSecrets).get(token)
    if known is None or not known.is_recent(world.clock):
        return None
    return known.given_to(subscription)


def _keep(world: World, token: str, known: _Known) -> None:
    """Cache secrets. First drop the expired secrets, which are the oldest, or all secrets if the cache is full."""
    kept = world.memory.of(OpenedSecrets)
    kept.pop(token, None)
    if len(kept) >= OPENED_MAX:
        kept.clear()
    while (first := next(iter(kept), None)) is not None:
        oldest = kept.get(first)
        if oldest is not None and oldest.is_recent(world.clock):
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
