"""Rows of rates: the time of a subscription's next free permit, shared by all workers."""

from __future__ import annotations

from dataclasses import dataclass

from tagcast.rows.codec import Codec, row_format
from tagcast.rows.keys import rate_key
from tagcast.tables import ABSENT, Update

KEPT_S = 3_600
"""Seconds that a row stays after the time of the next free permit. The time to live deletes the row later."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The time of the next free permit, in microseconds since 1970."""

    free_us: int


RATE_ROWS = row_format(rate_key, Codec(Rate), lambda rate: {"ttl": rate.free_us // 1_000_000 + KEPT_S})


def free_update(subscription_id: str, known: int | None, free_us: int) -> Update:
    """Return the write that takes all permits up to the time *free_us*.

    *known* is the time of the next free permit as it was read; None if there was no row. The write fails if another
    worker took permits after that read. Times are in microseconds.
    """
    expect = {"free_us": ABSENT if known is None else known}
    return Update(rate_key(subscription_id), RATE_ROWS.row_of(Rate(free_us)), expect=expect)
