"""Rows of rates: until when the attempts of a subscription that has a rate are given away, to whichever worker."""

from __future__ import annotations

from tagcast.rows.keys import rate_key
from tagcast.rows.values import number
from tagcast.tables import ABSENT, Row, Update

KEPT_S = 3_600
"""A row is of no use once its instant is over; the time to live takes it some time later."""


def free_us_of(row: Row | None) -> int | None:
    """Return from when on an attempt is free, in microseconds since 1970; None if nobody took any lately."""
    return None if row is None else number(row, "free_us")


def free_update(subscription_id: str, known: int | None, free_us: int) -> Update:
    """Return the write that gives away what was free from *known* to *free_us*, unless somebody else was faster."""
    changes = {"free_us": free_us, "ttl": free_us // 1_000_000 + KEPT_S}
    return Update(rate_key(subscription_id), changes, expect={"free_us": ABSENT if known is None else known})
