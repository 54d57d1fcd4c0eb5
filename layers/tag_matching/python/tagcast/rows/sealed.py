"""Rows of sealed secrets: what a subscriber chose and nobody is shown, encrypted, beside the subscription's row."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from tagcast.model import Subscription, SubscriptionSettings
from tagcast.rows.keys import secrets_key, subscription_key
from tagcast.rows.registry import sealed_mark
from tagcast.rows.values import text
from tagcast.tables import Delete, Put, Row, Update, Write


@dataclass(frozen=True, slots=True)
class Sealed:
    """The encrypted secrets of a subscription; *token* is another one every time that they are sealed."""

    token: str
    content: bytes


def sealed_of(row: Row) -> Sealed:
    """Return the secrets in a row."""
    return Sealed(text(row, "token"), cast("bytes", row["content"]))


def sealed_put(topic: str, name: str, sealed: Sealed) -> Put:
    """Return the write of a subscription's secrets; it goes with one that puts the token in the subscription's row."""
    return Put(secrets_key(topic, name), {"token": sealed.token, "content": sealed.content})


def sealed_delete(topic: str, name: str) -> Delete:
    """Return the write that removes the secrets of a subscription."""
    return Delete(secrets_key(topic, name))


def sealing_writes(known: Subscription, sealed: Sealed) -> tuple[Write, ...]:
    """Return the writes that seal the secrets of *known*, which stand in its row, unless it changed since."""
    mark, as_read = sealed_mark(sealed.token), {"version": known.version, "ordinal": known.ordinal}
    return (
        Update(subscription_key(known.topic, known.name), {"secret": mark}, expect=as_read),
        sealed_put(known.topic, known.name, sealed),
    )


def plain_text(settings: SubscriptionSettings) -> bytes:
    """Return the secrets in *settings* as they are encrypted."""
    hidden = {name: getattr(settings, name) for name in _hidden()}
    return json.dumps({name: value for name, value in hidden.items() if value is not None}).encode()


def with_plain_text(settings: SubscriptionSettings, plain: bytes) -> SubscriptionSettings:
    """Return *settings* with the secrets that were encrypted; what another release knows besides is left out.

    >>> from tagcast.model import ContentFormat, Endpoint, Protocol, RetryPolicy, Strategy
    >>> at, retry = Endpoint(Protocol.HTTP, "http://a.test/"), RetryPolicy(Strategy.BACKOFF_RETRY, 3)
    >>> chosen = SubscriptionSettings(at, None, retry, 15, ContentFormat.JSON, secret="s")
    >>> with_plain_text(without_secrets(chosen), plain_text(chosen)) == chosen
    True
    """
    found = json.loads(plain)
    return replace(settings, **{name: found[name] for name in _hidden() if name in found})


def without_secrets(settings: SubscriptionSettings) -> SubscriptionSettings:
    """Return *settings* without what nobody is shown."""
    nothing: dict[str, Any] = dict.fromkeys(_hidden())
    return replace(settings, **nothing)


def _hidden() -> tuple[str, ...]:
    return tuple(each.name for each in fields(SubscriptionSettings) if not each.repr)
