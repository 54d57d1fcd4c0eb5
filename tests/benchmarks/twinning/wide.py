"""One message to very many subscribers, from a cold start: when the last of them has it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.benchmarks.twinning.account import Account, Cell
from tests.benchmarks.twinning.computing import Reading
from tests.benchmarks.twinning.garbage import of_the_young
from tests.benchmarks.twinning.play import Course, Load, Publishing, messages_up_to
from tests.benchmarks.twinning.sdk import Sdk

HEADING = "| subscriptions × order, RTT | last push | p50 | functions at once | requests that write, a thousand |"
WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")


@dataclass(frozen=True)
class Wide:
    """What one message came to."""

    cell: Cell
    course: Course

    @property
    def last_push_s(self) -> float:
        """From the publisher's request to the arrival of the last push."""
        return self.course.lasted_s

    @property
    def writes_a_thousand(self) -> float:
        """Requests that write to the tables, for each thousand subscribers."""
        return 1000 * self.course.usage.of(*WRITES) / self.cell.subscriptions

    def __str__(self) -> str:
        of, course = self.cell, self.course
        return (
            f"| {of.subscriptions:,} × {of.ordering.value}, {of.rtt_ms:g} ms | {self.last_push_s:.1f} s "
            f"| {course.percentile_ms(0.5) / 1000:.1f} s | {course.most_running} | {self.writes_a_thousand:.2f} |"
        )


def one_message(cell: Cell, reading: Reading, sdk: Sdk) -> Wide:
    """Publish one message to all of *cell*; no function is warm, but the topic is kept beside its table."""
    with of_the_young():
        account = Account(cell, reading, sdk)
        with account.meter.reading_logs():
            course = Publishing(account, Load(publishers=1), messages_up_to(1)).play()
        for environment in account.deployment.functions.alive:
            environment.end()
    return Wide(cell, course)
