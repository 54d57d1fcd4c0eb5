"""Secrets of subscriptions as they are stored, read as values."""

from __future__ import annotations

from tagcast.ports import Store
from tagcast.rows import keys
from tagcast.rows.sealed import Sealed, sealed_of
from tagcast.tables import Row, Table


def sealed(store: Store, topic: str, name: str) -> Sealed | None:
    """Return the encrypted secrets of a subscription."""
    row = store.get(keys.secrets_key(topic, name))
    return None if row is None else sealed_of(row)


def exchange_rows(store: Store, until: int, limit: int) -> list[Row]:
    """Return the list of exchanged secrets that had to go before *until*, the earliest first."""
    last = keys.exchange_key(until, "", "").sk
    return store.query(Table.REGISTRY, keys.exchange_key(0, "", "").pk, sk_to=last, limit=limit)
