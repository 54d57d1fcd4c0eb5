"""Rows of nonces: that a signed request was taken, and by which look at it."""

from __future__ import annotations

from tagcast.rows.values import text
from tagcast.tables import ABSENT, Key, Put, Row


def nonce_put(key: Key, taken_by: str, ttl: int) -> Put:
    """Return the write that takes a request, unless somebody took it before; the row goes after *ttl*."""
    return Put(key, {"taken_by": taken_by, "ttl": ttl}, {"pk": ABSENT})


def taken_by_of(row: Row) -> str:
    """Return who took the request."""
    return text(row, "taken_by")
