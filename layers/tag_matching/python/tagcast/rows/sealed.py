"""Rows of sealed (encrypted) secrets.

A subscriber's write-only secrets are in a row apart from the subscription's row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Any

from tagcast.model import SubscriptionSettings
from tagcast.rows.codec import Codec, row_format
from tagcast.rows.keys import exchange_key, secrets_key
from tagcast.subscription_settings import FormerSecret
from tagcast.tables import Delete, Expectation, Row, Store, Table, Update, Write


@dataclass(frozen=True, slots=True)
class Sealed:
    """The encrypted secrets of a subscription. Every encryption has a new *token*.

    *content* has the current secrets. *formers* has the previous secrets, None if there are none. They are encrypted
    separately, so that they can be deleted at *formers_until* without decryption.
    """

    token: str
    content: bytes
    formers: bytes | None = None
    formers_until: int | None = None


SECRETS = row_format(secrets_key, Codec(Sealed))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A rotation in the list of rotations. The previous secrets of the subscription *name* expire at *until*.

    The rotation is obsolete if the secrets were encrypted again, so that they have another *token*.
    """

    topic: str
    name: str
    token: str
    until: int


EXCHANGE_ROWS = row_format(exchange_key, Codec(Exchange))


def exchange_rows(store: Store, until: int, after: str, limit: int) -> list[Row]:
    """Return at most *limit* rows of rotations whose previous secrets expired before *until*, the earliest first.

    The first row is the next one after the sort key *after*.
    """
    last = exchange_key(until, "", "").sk
    return store.query(Table.REGISTRY, exchange_key(0, "", "").pk, sk_from=f"{after}\x00", sk_to=last, limit=limit)


def sealed_puts(topic: str, name: str, sealed: Sealed) -> tuple[Write, ...]:
    """Return the writes that store a subscription's secrets, and list the rotation if there are previous secrets.

    The caller adds a write of the subscription with the token of *sealed* to the same transaction.
    """
    put = SECRETS.put(sealed, topic, name)
    if sealed.formers_until is None:
        return (put,)
    listed = Exchange(topic, name, sealed.token, sealed.formers_until)
    return put, EXCHANGE_ROWS.put(listed, listed.until, topic, name)


def sealed_delete(topic: str, name: str) -> Delete:
    """Return the write that deletes the secrets of a subscription."""
    return Delete(secrets_key(topic, name))


def formers_removal(listed: Exchange) -> Update:
    """Return the write that deletes the previous secrets. It fails if the secrets were encrypted again or deleted."""
    expect: Expectation = {"token": listed.token, "formers_until": listed.until}
    return Update(secrets_key(listed.topic, listed.name), {}, remove=("formers", "formers_until"), expect=expect)


def exchange_delete(listed: Exchange) -> Delete:
    """Return the write that removes a rotation from the list of rotations."""
    return Delete(exchange_key(listed.until, listed.topic, listed.name))


def plain_text(settings: SubscriptionSettings) -> bytes:
    """Return the current secrets in *settings* as plaintext for encryption."""
    hidden = {name: getattr(settings, name) for name in _secret_names()}
    return json.dumps({name: value for name, value in hidden.items() if value is not None}).encode()


def formers_text(settings: SubscriptionSettings) -> bytes:
    """Return the previous secrets in *settings* as plaintext for encryption."""
    return json.dumps([[former.secret, former.until] for former in settings.formers]).encode()


def with_plain_text(settings: SubscriptionSettings, plain: bytes, formers: bytes | None = None) -> SubscriptionSettings:
    """Return *settings* with the secrets in two decrypted texts.

    *plain* is from :func:`plain_text`; *formers* is from :func:`formers_text`, None if there are no previous secrets.

    >>> from tagcast.model import ContentFormat, Endpoint, Protocol, RetryPolicy, Strategy
    >>> at, retry = Endpoint(Protocol.HTTP, "http://a.test/"), RetryPolicy(Strategy.BACKOFF_RETRY, 3)
    >>> chosen = SubscriptionSettings(at, None, retry, 15, ContentFormat.JSON, "s", formers=(FormerSecret("r", 9),),
    ...                               client_key="k")
    >>> with_plain_text(without_secrets(chosen), plain_text(chosen), formers_text(chosen)) == chosen
    True
    """
    exchanged = tuple(FormerSecret(*each) for each in json.loads(formers or b"[]"))
    return replace(settings, **json.loads(plain), formers=exchanged)


def without_secrets(settings: SubscriptionSettings) -> SubscriptionSettings:
    """Return *settings* without the secrets."""
    nothing: dict[str, Any] = dict.fromkeys(_secret_names())
    return replace(settings, **nothing, formers=())


def _secret_names() -> tuple[str, ...]:
    """Return the names of the secret fields, except the previous secrets, which are sealed separately."""
    return tuple(each.name for each in fields(SubscriptionSettings) if not each.repr and each.name != "formers")
