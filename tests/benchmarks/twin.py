"""Speed and cost of the shipped handlers on the simulated AWS: ``python -m tests.benchmarks.twin``.

What is modelled and from where each number is: docs/speed-and-cost.md. Some cells say which goals are met; ``--table``
plays all of them, ``--seconds`` says for how long, and ``--wide`` sends one message to very many subscribers.
``--place`` plays them where AWS gives less.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tagcast.model import Ordering
from tagcast.registry.subscribing import SUBSCRIPTIONS_MAX

from tests.aws.limits import LARGE_REGION, NEW_ACCOUNT, SMALL_REGION, QuotaPlace
from tests.benchmarks.ratios import print_heading
from tests.benchmarks.twinning.account import Cell
from tests.benchmarks.twinning.measured import Effort, Measured, measured
from tests.benchmarks.twinning.sdk import MeasuredSdk
from tests.benchmarks.twinning.wide import HEADING, first_publish, one_message

SECONDS = 60.0
"""Of processor time that a cell plays for, its set-up not counted."""
AT_ONCE = 16
WIDEST = min(100_000, SUBSCRIPTIONS_MAX)
"""The widest topic that there may be."""
SUBSCRIPTIONS, RTTS_MS = (1, 10, 1_000), (5, 30, 200)
WIDE_RTTS_MS = (30, 200)
PLACES = {"large": LARGE_REGION, "small": SMALL_REGION, "new": NEW_ACCOUNT}

SINGLY = Cell(3, Ordering.NONE, 30, parameters=(("TopicKnownSeconds", "0"),))
KNOWN = Cell(3, Ordering.NONE, 30)
THRIFT = (("PublishUrl", "true"), ("FanOutMemory", "884"), ("SystemLogLevel", "WARN"))
"""The parameters of the template by which its owner saves most where messages are published singly."""
THRIFTY = Cell(3, Ordering.NONE, 30, parameters=THRIFT)
BY_BATCHES = Cell(3, Ordering.NONE, 30, AT_ONCE, batched=True)
IN_ORDER = Cell(1, Ordering.TOPIC, 30, AT_ONCE, batched=True)
IN_ORDER_SINGLY = Cell(1, Ordering.TOPIC, 30)
WIDE = Cell(100, Ordering.NONE, 30, AT_ONCE, batched=True)
CELLS = (SINGLY, KNOWN, THRIFTY, BY_BATCHES, IN_ORDER, IN_ORDER_SINGLY, WIDE)


@dataclass(frozen=True)
class Goal:
    """What a cell is to reach: at least so much, or at most."""

    text: str
    cell: Cell
    found: Callable[[Measured], float]
    bound: float
    at_least: bool = True

    def said(self, value: float) -> str:
        met = value >= self.bound if self.at_least else value <= self.bound
        sign = "≥" if self.at_least else "≤"
        return f"| {self.text} | {sign} {self.bound:,.5g} | {value:,.4g} | {'met' if met else 'missed'} |"


GOALS = (
    Goal("no order, published singly, the defaults: messages/s", KNOWN, lambda found: found.most, 5_000),
    Goal("no order, by 16: messages/s", BY_BATCHES, lambda found: found.per_second, 5_000),
    Goal("in order, by 16, batched pushes: messages/s", IN_ORDER, lambda found: found.per_second, 1_000),
    Goal(
        "in order, singly: messages/s of 1 / RTT",
        IN_ORDER_SINGLY,
        lambda found: found.per_second * found.cell.rtt_ms / 1000,
        0.8,
    ),
    Goal(
        "3 subscribers, singly, `PublishUrl` and the like: USD a million",
        THRIFTY,
        lambda found: found.usd,
        4.20,
        at_least=False,
    ),
    Goal("3 subscribers, by 16: USD a million", BY_BATCHES, lambda found: found.usd, 2.30, at_least=False),
    Goal("100 subscribers, by 16: USD a million", WIDE, lambda found: found.usd, 5.00, at_least=False),
)


def table() -> Iterator[Cell]:
    """Return every cell: those that are published by batches have subscribers that take batches."""
    for subscriptions, ordering, rtt_ms, at_once in product(SUBSCRIPTIONS, Ordering, RTTS_MS, (1, AT_ONCE)):
        yield Cell(subscriptions, ordering, rtt_ms, at_once, batched=at_once > 1)


def played(cells: Sequence[Cell], seconds: float) -> Iterator[Measured]:
    """Play the cells, one after the other, and print each as a line."""
    sdk = MeasuredSdk()
    cell_columns = ("messages/s", "p50", "p99", "limited by", "first quota used up", "calls", "USD")
    print_heading("subscriptions × order, RTT, publishing, pushes", *cell_columns)
    for cell in cells:
        found = measured(cell, Effort(seconds), time.thread_time_ns, sdk)
        print(
            f"| {cell} | {found.per_second:,.0f} | {found.p50_ms:,.0f} ms | {found.p99_ms:,.0f} ms | {found.limit} "
            f"| {found.bound or '-'} | {found.calls:.2f} | {found.usd:.2f} |",
            flush=True,
        )
        yield found


def bills(found: Sequence[Measured]) -> None:
    """Print the lines of each bill, and what each step would save of it."""
    of_titles = {"a line": [each.bill for each in found], "a step would save": [each.savings for each in found]}
    for title, columns in of_titles.items():
        print()
        print_heading(f"USD a million: {title}", *(str(each.cell) for each in found))
        for line in dict.fromkeys(line for column in columns for line in column):
            print(f"| {line} | {' | '.join(f'{column.get(line, 0.0):.2f}' for column in columns)} |")


def one_message_each(sizes: Sequence[int], place: QuotaPlace) -> None:
    """Send one message to so many subscribers, without and with an order, and print each as a line."""
    print(f"\n{HEADING}\n|---|---|---|---|---|")
    sdk = MeasuredSdk()
    for size, ordering, rtt_ms in product(sizes, (Ordering.NONE, Ordering.TOPIC), WIDE_RTTS_MS):
        print(one_message(Cell(size, ordering, rtt_ms, place=place), time.thread_time_ns, sdk), flush=True)
    print("\n| subscriptions, nothing kept | answers to the first publisher, 503 but for the last |\n|---|---|")
    for size, conditions in product(sizes, (False, True)):
        cell = Cell(size, Ordering.NONE, WIDE_RTTS_MS[0], conditions=conditions, place=place)
        took_s = first_publish(cell, time.thread_time_ns, sdk, lives_on=conditions)
        filters = "a condition each, the same process" if conditions else "no filter, a new process each time"
        print(f"| {size:,}, {filters} | {', '.join(f'{each:.1f} s' for each in took_s)} |", flush=True)


def main() -> None:
    """Print the table, the bills, and how the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--table", type=int, nargs="*", metavar="N", help="play every cell, or those of N subscriptions"
    )
    parser.add_argument("--wide", type=int, nargs="*", metavar="N", help="send one message to N subscribers")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="processor time of a cell")
    parser.add_argument("--place", choices=PLACES, default="large", help="whose quotas are played")
    asked = parser.parse_args()
    place = PLACES[asked.place]
    if asked.table is not None:
        wanted = asked.table or SUBSCRIPTIONS
        cells = [replace(cell, place=place) for cell in table() if cell.subscriptions in wanted]
        list(played(cells, asked.seconds))
    if asked.wide is not None:
        one_message_each(asked.wide or [WIDEST], place)
    if asked.table is not None or asked.wide is not None:
        return
    found = list(played([replace(cell, place=place) for cell in CELLS], asked.seconds))
    bills(found)
    print("\n| goal | bound | found | |\n|---|---|---|---|")
    by_cell = dict(zip(CELLS, found, strict=True))
    for goal in GOALS:
        print(goal.said(goal.found(by_cell[goal.cell])))


if __name__ == "__main__":
    main()
