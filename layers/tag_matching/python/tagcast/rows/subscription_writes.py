"""The writes of a subscription's row."""

from __future__ import annotations

from tagcast.model import Subscription
from tagcast.rows.keys import secrets_key, shadow_key, subscription_key
from tagcast.rows.registry import subscription_row
from tagcast.tables import ABSENT, Delete, Expectation, Put, Write


def subscription_put(changed: Subscription, known: Subscription | None) -> Put:
    """Return the write of *changed* over *known* (None: there is none), unless that changed since it was read."""
    expect: Expectation = {"pk": ABSENT} if known is None else _as_read(known)
    return Put(subscription_key(changed.topic, changed.name), subscription_row(changed), expect)


def subscription_deletes(known: Subscription) -> tuple[Write, ...]:
    """Return the writes that remove a subscription, unless it changed since it was read, its shadow and its secrets."""
    return (
        Delete(subscription_key(known.topic, known.name), _as_read(known)),
        Delete(shadow_key(known.topic, known.name)),
        Delete(secrets_key(known.topic, known.name)),
    )


def _as_read(known: Subscription) -> Expectation:
    return {"version": known.version, "ordinal": known.ordinal}
