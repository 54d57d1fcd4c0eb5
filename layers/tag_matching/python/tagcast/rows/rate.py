"""Rows of rates: until when the attempts of a subscription that has a rate are given away, to whichever worker."""

from __future__ import annotations

from dataclasses import dataclass

from tagcast.rows.declaration import Declaration, Written
from tagcast.rows.keys import rate_key
from tagcast.tables import ABSENT, Update

KEPT_S = 3_600
"""A row is of no use once its instant is over; the time to live takes it some time later."""


@dataclass(frozen=True, slots=True)
class Rate:
    """From when on an attempt is free, in microseconds since 1970."""

    free_us: int


RATE_ROWS = Declaration(
    Rate,
    rate_key,
    "until when the attempts of a subscription with a rate are given away, in microseconds",
    "an hour after that",
    "fan_out, retry",
    ttl=Written(f"{{}} // 1_000_000 + {KEPT_S}", "free_us"),
)


def free_update(subscription_id: str, known: int | None, free_us: int) -> Update:
    """Return the write that gives away what was free from *known* to *free_us*, unless somebody else was faster."""
    expect = {"free_us": ABSENT if known is None else known}
    return Update(rate_key(subscription_id), RATE_ROWS.row_of(Rate(free_us)), expect=expect)
