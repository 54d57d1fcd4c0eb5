"""Rows of rates: until when the attempts of a subscription that has a rate are given away, to whichever worker."""

from __future__ import annotations

from dataclasses import dataclass

from tagcast.rows.keys import rate_key
from tagcast.rows.kind import Kind
from tagcast.tables import ABSENT, Update, Value

KEPT_S = 3_600
"""A row is of no use once its instant is over; the time to live takes it some time later."""


@dataclass(frozen=True, slots=True)
class Rate:
    """From when on an attempt is free, in microseconds since 1970."""

    free_us: int


def _rate_row(rate: Rate) -> dict[str, Value]:
    return {"free_us": rate.free_us, "ttl": rate.free_us // 1_000_000 + KEPT_S}


RATE_ROWS = Kind(rate_key, _rate_row, lambda row: Rate(row["free_us"]))


def free_update(subscription_id: str, known: int | None, free_us: int) -> Update:
    """Return the write that gives away what was free from *known* to *free_us*, unless somebody else was faster."""
    expect = {"free_us": ABSENT if known is None else known}
    return Update(rate_key(subscription_id), RATE_ROWS.row_of(Rate(free_us)), expect=expect)
