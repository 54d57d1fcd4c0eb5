"""Rows of rates: the time of a subscription's next free permit, shared by all workers."""

from __future__ import annotations

from tagcast.rows.keys import rate_key
from tagcast.rows.values import number
from tagcast.tables import ABSENT, Store, Update

KEPT_S = 3_600
"""Seconds that a row stays after the time of the next free permit. The time to live deletes the row later."""


def read_free(store: Store, subscription_id: str) -> int | None:
    """Return the stored time of the next free permit, in microseconds since 1970; None without a row."""
    row = store.get(rate_key(subscription_id))
    return None if row is None else number(row, "free_us")


def free_update(subscription_id: str, known: int | None, free_us: int) -> Update:
    """Return the write that takes all permits up to *free_us*. It fails if another worker took some after the read.

    *known* is the result of :func:`read_free`. Times are in microseconds.
    """
    changes = {"free_us": free_us, "ttl": free_us // 1_000_000 + KEPT_S}
    expect = {"free_us": ABSENT if known is None else known}
    return Update(rate_key(subscription_id), changes, expect=expect)
