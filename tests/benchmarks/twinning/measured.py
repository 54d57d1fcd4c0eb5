"""A cell as a line of the table: warmed, filled, and then at half of what it sustains."""

import time
from dataclasses import dataclass

from tagcast.model import Ordering

from tests.benchmarks.twinning.account import Account, Cell
from tests.benchmarks.twinning.bill import savings_of, search_pass, usd_of
from tests.benchmarks.twinning.bounds import Bound, first_bound, limit_of, taken
from tests.benchmarks.twinning.computing import Reading
from tests.benchmarks.twinning.play import Course, Load, Publishing, messages_up_to, of_the_young
from tests.benchmarks.twinning.sdk import Sdk

PUBLISHERS = "its publishers"
"""That is: by nothing of AWS."""
PUSHES_MAX = 20_000
"""So many pushes are pending at most, or a wide topic would be all backlog."""
WARM, FULL, HALF = 0.3, 0.45, 0.25
"""The shares of a cell's processor time."""
MESSAGES_MIN = 2


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
    bound: Bound | None
    """Which quota would be used up first, and at how many messages a second: computed, not played."""
    calls: float
    """Requests to AWS a message, those of the API and of the pollers included."""
    bill: dict[str, float]
    savings: dict[str, float]
    full: Course
    half: Course

    @property
    def most(self) -> float:
        """What it sustained; if nothing of AWS limited it, what the first quota to be used up would let through."""
        return self.bound.per_second if self.limit == PUBLISHERS and self.bound else self.per_second

    @property
    def usd(self) -> float:
        return sum(self.bill.values())


def load_of(cell: Cell) -> Load:
    """Return publishers enough to meet some limit of AWS, and not so many that they only wait."""
    if cell.ordering is Ordering.NONE or cell.ordering is Ordering.KEY:
        publishers = 300 if cell.at_once == 1 else 80
    else:
        publishers = 40 if cell.at_once == 1 else 20
    open_max = max(cell.at_once, min(400 * cell.at_once, PUSHES_MAX // cell.subscriptions))
    return Load(publishers=max(1, min(publishers, open_max // cell.at_once)), open_max=open_max)


class Effort:
    """How many messages each part of a cell plays, so that all of it takes so much processor time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._each_s = 0.0

    def warmed(self, account: Account, load: Load) -> int:
        """Play the part that warms *account*; return how many messages that were, and know what one takes."""
        began = time.process_time()
        until = began + WARM * self._seconds
        most = Publishing(account, load, lambda count: count < MESSAGES_MIN or time.process_time() < until)
        course = most.play()
        self._each_s = (time.process_time() - began) / len(course.sent)
        return _count(course)

    def messages(self, share: float) -> int:
        return max(MESSAGES_MIN, int(share * self._seconds / self._each_s))


def measured(cell: Cell, effort: Effort, reading: Reading, sdk: Sdk) -> Measured:
    """Play *cell*: warm it, fill it, and publish at half of that: both tell how fast it could be."""
    account = Account(cell, reading, sdk)
    load = load_of(cell)
    with account.meter.reading_logs(), of_the_young():
        warm = effort.warmed(account, load)
        account.forget()
        full = Publishing(account, load, messages_up_to(effort.messages(FULL)), warm).play()
        of_full = taken(account, full)
        account.forget()
        every_ms = 1000 * cell.at_once / (full.sustained() / 2)
        first = warm + _count(full)
        half = Publishing(account, Load(every_ms=every_ms), messages_up_to(effort.messages(HALF)), first).play()
        of_half = taken(account, half)
    account.deployment.functions.end()
    messages = len(half.sent)
    asked = sum(half.usage.calls.values()) + half.usage.api_requests
    return Measured(
        cell=cell,
        per_second=full.sustained(),
        p50_ms=half.percentile_ms(0.5),
        p99_ms=half.percentile_ms(0.99),
        limit=limit_of(full, of_full) or PUBLISHERS,
        bound=first_bound((half, of_half), (full, of_full)),
        calls=asked / messages,
        bill={**usd_of(half.usage, messages), "search": search_pass(half.sustained()).usd_a_million},
        savings=savings_of(half.usage, messages),
        full=full,
        half=half,
    )


def _count(course: Course) -> int:
    return len(course.sent) + course.refused
