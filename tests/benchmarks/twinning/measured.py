"""A cell as a line of the table: warmed, filled, and then at half of what it sustains."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tagcast.model import Ordering

from tests.aws import limits
from tests.benchmarks.twinning.account import Account, Cell
from tests.benchmarks.twinning.bill import savings_of, usd_of
from tests.benchmarks.twinning.computing import Reading
from tests.benchmarks.twinning.play import Course, Load, Publishing
from tests.benchmarks.twinning.sdk import Sdk

BUSY = 0.85
"""A group or the account's functions limit a cell from this share of their time or number on."""
REFUSED = 0.01
WARM, FULL, HALF = 0.3, 0.45, 0.25
"""The shares of a cell's processor time."""


@dataclass(frozen=True)
class Measured:
    """What a cell came to.

    Latencies are from the publisher's request to the push's arrival. They, the calls and the bill are those of half the
    load that the cell sustains: above it everybody waits, which is billed, too.
    """

    cell: Cell
    per_second: float
    p50_ms: float
    p99_ms: float
    limit: str
    calls: float
    """Requests to AWS a message, those of the API and of the pollers included."""
    bill: dict[str, float]
    savings: dict[str, float]
    full: Course
    half: Course

    @property
    def usd(self) -> float:
        return sum(self.bill.values())


def load_of(cell: Cell) -> Load:
    """Return publishers enough to meet some limit of AWS, and not so many that they only wait."""
    if cell.ordering is Ordering.NONE or cell.ordering is Ordering.KEY:
        publishers = 400 if cell.at_once == 1 else 80
    else:
        publishers = 40 if cell.at_once == 1 else 20
    wide = max(1, cell.subscriptions // 100)
    return Load(publishers=max(2, publishers // wide), open_max=max(20, 100 * cell.at_once * 4 // wide))


def measured(cell: Cell, goes_on: Callable[[float], Callable[[int], bool]], reading: Reading, sdk: Sdk) -> Measured:
    """Play *cell*; *goes_on* makes of a share of the effort what says whether there is more of it."""
    account = Account(cell, reading, sdk)
    load = load_of(cell)
    with account.meter.reading_logs():
        first = Publishing(account, load, goes_on(WARM)).play()
        warm = _count(first)
        _forget_refusals(account)
        full = Publishing(account, load, goes_on(FULL), warm).play()
        limit = _limit(account, full)
        every_ms = 1000 * cell.at_once / (full.sustained() / 2)
        half = Publishing(account, Load(every_ms=every_ms), goes_on(HALF), warm + _count(full)).play()
    for environment in account.deployment.functions.alive:
        environment.end()
    messages = len(half.sent)
    asked = sum(half.usage.calls.values()) + half.usage.api_requests
    return Measured(
        cell=cell,
        per_second=full.sustained(),
        p50_ms=half.percentile_ms(0.5),
        p99_ms=half.percentile_ms(0.99),
        limit=limit,
        calls=asked / messages,
        bill=usd_of(half.usage, messages),
        savings=savings_of(half.usage, messages),
        full=full,
        half=half,
    )


def _count(course: Course) -> int:
    return len(course.sent) + course.refused


def _forget_refusals(account: Account) -> None:
    for table in account.deployment.tables.values():
        table.throughput.refused.clear()
    account.deployment.sqs.refused.clear()


def _limit(account: Account, course: Course) -> str:
    """Name what the cell met: what was always busy, what was refused, or else only that there were no more messages."""
    if course.group_busy > BUSY:
        return "a group's one batch at a time"
    refused = Counter({"calls to a group": account.deployment.sqs.refused.total()})
    for table in account.deployment.tables.values():
        refused.update(table.throughput.refused)
    (worst, times), *_ = refused.most_common(1)
    if times > REFUSED * _count(course):
        return worst
    if course.most_running > BUSY * limits.LAMBDA_CONCURRENCY:
        return "concurrency of functions"
    return "its publishers"


def clocked(seconds: float) -> Callable[[float], Callable[[int], bool]]:
    """Return what lets a cell play for so much processor time."""

    def goes_on(share: float) -> Callable[[int], bool]:
        until = time.process_time() + share * seconds
        return lambda count: count < 2 or time.process_time() < until

    return goes_on


def counted(messages: int) -> Callable[[float], Callable[[int], bool]]:
    """Return what lets a cell play so many messages in each of its parts."""
    return lambda share: lambda count: count < messages
