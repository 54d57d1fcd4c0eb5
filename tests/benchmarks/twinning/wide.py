"""One message to very many subscribers, from a cold start: when the last of them has it."""

from dataclasses import dataclass
from http import HTTPStatus

from tests.aws.http_api import Answer
from tests.benchmarks.twinning.account import TOPIC, Account, Cell
from tests.benchmarks.twinning.computing import Reading
from tests.benchmarks.twinning.orders import order
from tests.benchmarks.twinning.play import STEP_MS, Course, Load, Publishing, messages_up_to, of_the_young
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
        account = Account(cell, reading, sdk, cold=True)
        with account.meter.reading_logs():
            course = Publishing(account, Load(publishers=1), messages_up_to(1)).play()
        account.deployment.functions.end()
    return Wide(cell, course)


def first_publish(cell: Cell, reading: Reading, sdk: Sdk, *, lives_on: bool = False) -> list[float]:
    """Publish to the topic of *cell*, of which nothing is kept, until it is accepted; return the seconds of each try.

    Each request meets a process that has just started, as if the one before had died; or the one that *lives_on*.
    """
    with of_the_young():
        account = Account(cell, reading, sdk)
        for bucket in account.deployment.s3.buckets.values():
            bucket.clear()
        answers: list[Answer] = []
        took_s: list[float] = []
        while not answers or answers[-1].status == HTTPStatus.SERVICE_UNAVAILABLE:
            if not lives_on:
                account.deployment.functions.configure()
            began_s = account.timeline.seconds
            path = ("topics", TOPIC, "messages")
            account.deployment.api.ask("POST", path, answers.append, body={"body": order(0)})
            while len(answers) == len(took_s):
                account.timeline.play_until(account.timeline.now + STEP_MS)
            took_s.append(account.timeline.seconds - began_s)
        assert answers[-1].status == HTTPStatus.CREATED, answers[-1].value
        account.deployment.functions.end()
    return took_s
