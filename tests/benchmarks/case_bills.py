"""What messages cost where they cost more: ``python -m tests.benchmarks.case_bills``.

On the simulated AWS of `tests.benchmarks.twin`, at its prices. Less traffic leaves the batches of Lambda's pollers
unfilled, and `fan_out` is billed while it waits for answers. Under the default retries an endpoint that answers with
500 gets each message again and again.
"""

import argparse
import sys
import time
from dataclasses import dataclass, replace

from tagcast.model import Ordering, RetryPolicy, Strategy
from tagcast.pushing.retry_delay import DECAY_RETRIES_MAX

from tests.aws.prices import PRICES_USD
from tests.benchmarks.ratios import print_heading
from tests.benchmarks.twinning.account import Account, Cell
from tests.benchmarks.twinning.bill import GIGABYTE, MILLION, search_pass, usd_of
from tests.benchmarks.twinning.computing import Reading
from tests.benchmarks.twinning.meter import Usage
from tests.benchmarks.twinning.play import Load, Publishing, messages_up_to, of_the_young
from tests.benchmarks.twinning.sdk import MeasuredSdk, Sdk

SUBSCRIBERS = 3
CASES = ((100, 30), (100, 300), (1, 30), (1, 300), (1, 1_000), (0.05, 30), (0.05, 300), (0.05, 1_000))
"""Messages a second, and milliseconds until an endpoint answers.

Above 750 ms a batch does not wait for the answer (`ANSWERED_WITHIN_S`), so each delivery joins a backlog.
"""
MESSAGES = {100: 500, 1: 60, 0.05: 60}
"""How many are played, by messages a second."""
WARM = 200
REFUSING = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"
RETRIES = RetryPolicy(Strategy.INDEPENDENT_RETRY, DECAY_RETRIES_MAX)
BACKLOG = 200
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class CaseBill:
    """USD of a million messages or attempts, by line, and the gigabytes of their pushes, without TLS."""

    lines: dict[str, float]
    gigabytes: float

    @property
    def usd(self) -> float:
        return sum(self.lines.values())

    @property
    def internet_usd(self) -> float:
        return self.gigabytes * PRICES_USD["ec2: a GB to the internet"]


def at_pace(cell: Cell, per_second: float, messages: int, reading: Reading, sdk: Sdk, *, warm: int = WARM) -> CaseBill:
    """Publish *messages* at equal distances, after *warm* others without rest."""
    account = Account(cell, reading, sdk)
    with account.meter.reading_logs(), of_the_young():
        before = Publishing(account, Load(publishers=4), messages_up_to(warm)).play()
        account.receivers.bytes = 0
        first = len(before.sent) + before.refused
        load = Load(every_ms=1000 * cell.at_once / per_second)
        course = Publishing(account, load, messages_up_to(messages), first).play()
    account.deployment.functions.end()
    count = len(course.sent)
    lines = {**usd_of(course.usage, count), "search": search_pass(per_second).usd_a_million}
    return CaseBill(lines, account.receivers.bytes * MILLION / count / GIGABYTE)


def refused(messages: int, hours: int, reading: Reading, sdk: Sdk) -> tuple[int, CaseBill]:
    """Let an endpoint refuse *messages*; return the attempts of *hours* behind the first, and what a million cost."""
    account = Account(Cell(1, Ordering.NONE, 30, 10, retry=RETRIES), reading, sdk, shards=1)
    timeline, receivers, meter = account.timeline, account.receivers, account.meter
    receivers.answer = REFUSING
    with meter.reading_logs(), of_the_young():
        Publishing(account, Load(every_ms=100), messages_up_to(messages)).begin()
        timeline.play_until(timeline.now + HOUR_MS)
        meter.usage, receivers.requests, receivers.bytes = Usage(), 0, 0
        read, written = account.units()
        timeline.play_until(timeline.now + hours * HOUR_MS)
        meter.usage.units = {"read": account.units()[0] - read, "write": account.units()[1] - written}
    account.deployment.functions.end()
    attempts = receivers.requests
    return attempts, CaseBill(usd_of(meter.usage, attempts), receivers.bytes * MILLION / attempts / GIGABYTE)


def _print_line(name: str, found: CaseBill) -> None:
    most = sorted(found.lines.items(), key=lambda each: -each[1])[:4]
    told = ", ".join(f"{line} {usd:.2f}" for line, usd in most)
    print(f"| {name} | {found.usd:.2f} | {found.internet_usd:.2f} | {told} |", flush=True)


def main() -> int:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000, help="how many a case plays at most")
    most = parser.parse_args().messages
    sdk, reading = MeasuredSdk(), time.thread_time_ns
    print_heading("case", "USD a million", "USD for traffic to the internet", "most of it")
    plain = Cell(SUBSCRIBERS, Ordering.NONE, 0, retry=RETRIES)
    for per_second, rtt_ms in CASES:
        messages = min(most, MESSAGES[per_second])
        found = at_pace(replace(plain, rtt_ms=rtt_ms), per_second, messages, reading, sdk)
        _print_line(f"{SUBSCRIBERS} subscribers, {per_second} a second, answers after {rtt_ms} ms", found)
    small = replace(plain, rtt_ms=300, parameters=(("FanOutMemory", "884"),))
    _print_line(
        "the same, 1 a second, 300 ms, FanOutMemory 884", at_pace(small, 1, min(most, MESSAGES[1]), reading, sdk)
    )
    wide = Cell(100, Ordering.NONE, 30, 16, batched=True)
    _print_line("100 subscribers, by 16, batched pushes", at_pace(wide, 300, min(most, 800), reading, sdk))
    _, found = refused(min(most, BACKLOG), 2, reading, sdk)
    _print_line(f"attempts that are refused by 500, of a backlog of {min(most, BACKLOG)}", found)
    print(f"\nall {RETRIES.max_retries} retries of a million messages: {RETRIES.max_retries * found.usd:,.0f} USD")
    return 0


if __name__ == "__main__":
    sys.exit(main())
