"""A cell is played: publishers that never rest say what it sustains, half of that how long a message takes."""

import gc
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from tagcast.model import Ordering

from tests.aws import limits
from tests.aws.http_api import Answer
from tests.benchmarks.twinning.account import TOPIC, Account
from tests.benchmarks.twinning.meter import Usage
from tests.benchmarks.twinning.orders import order

KEYS = 64
"""Ordering keys that messages are spread over."""
STEP_MS = 20
AGAIN_MS = 100
BEGIN_MS = 50
"""Within that all publishers begin: no two of them know when the other does."""
IDLE_S_MAX = 120.0


@dataclass(frozen=True)
class Load:
    """How a cell is published to: *publishers* at once and without rest, or requests at equal distances."""

    publishers: int = 0
    every_ms: float = 0.0
    open_max: int = 10_000
    """So many messages may be on their way before the publishers wait."""


@dataclass
class Sent:
    """One message: when it was sent, how often it was pushed, when the first and the last time."""

    at: int
    key: int
    pushes: int = 0
    done_at: int = 0


@dataclass
class Course:
    """What came of a load; instants and latencies in microseconds of virtual time."""

    sent: dict[int, Sent] = field(default_factory=dict)
    latencies: list[int] = field(default_factory=list)
    refused: int = 0
    began: int = 0
    seen_at: int = 0
    """When a push arrived last; *ended*: one that was the last of its message."""
    ended: int = 0
    usage: Usage = field(default_factory=Usage)
    pushes: int = 0
    extra: int = 0
    most_running: int = 0
    group_busy: float = 0.0

    @property
    def lasted_s(self) -> float:
        """Return from the first request to the last push."""
        return (self.ended - self.began) / 1_000_000

    def sustained(self) -> float:
        """Return messages a second that reached all subscribers, without the first and last fifths of several.

        What waited somewhere may end faster than it was published, which lasts only as long as it waits.
        """
        done = [each for each in self.sent.values() if each.done_at]
        pace = min(_pace([each.done_at for each in done]), _pace([each.at for each in done]))
        return pace if pace < math.inf else 1_000_000 * len(done) / (self.ended - self.began)

    def percentile_ms(self, share: float) -> float:
        """Return from the publisher's request to the push's arrival, for that share of the pushes."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1000 if ordered else 0.0


def _pace(instants: list[int]) -> float:
    """Return how many instants there are in a second of the middle three fifths; infinite if those are one."""
    instants.sort()
    first, last = len(instants) // 5, len(instants) - len(instants) // 5 - 1
    took = instants[last] - instants[first]
    return 1_000_000 * (last - first) / took if took else math.inf


def messages_up_to(most: int) -> Callable[[int], bool]:
    return lambda count: count < most


@contextmanager
def of_the_young() -> Iterator[None]:
    """Look for garbage in what was made lately, as a process does on AWS, and never in the memory of all processes.

    A process that brings a message to a thousand endpoints by sockets looks through its youngest 119 times, the younger
    10 times, and never through all: there is not a quarter more of it than before. Among a hundred such processes that
    look takes a hundred times as long, and would count as computing of one of them: longer than a batch waits for an
    answer, so that its pushes would be late.
    """
    youngest, younger, all_ = gc.get_threshold()
    gc.set_threshold(youngest, younger, 2**31 - 1)
    try:
        yield
    finally:
        gc.set_threshold(youngest, younger, all_)


class Publishing:
    """Sends messages by the API until *goes_on* says no to how many were not refused, and sees them arrive."""

    def __init__(self, account: Account, load: Load, goes_on: Callable[[int], bool], first: int = 0) -> None:
        self._account, self._load, self._goes_on = account, load, goes_on
        self._timeline = account.timeline
        self._serial, self._first = first, first
        self._open = 0
        self._asking = 0
        self._is_ticking = False
        self._waiting: list[int] = []
        self.course = Course()

    @property
    def is_asking(self) -> bool:
        """Say whether a request has no answer yet."""
        return bool(self._asking)

    def play(self) -> Course:
        """Let it all happen, to the last record of the archive; return what came of it."""
        self.begin()
        return self.finish()

    def begin(self) -> Course:
        """Let the publishers begin; return what will come of it."""
        account, course = self._account, self.course
        random.seed(f"play {self._first}")  # aiohttp and the adapter of the archive roll the machine's dice.
        account.seen, account.meter.usage, account.meter.most_running = self._seen, course.usage, 0
        self._before = (account.units(), account.pollers.requests.copy(), account.pollers.served_ms.copy())
        self._cpu_before = account.timeline.cpu_ms.copy()
        course.began = self._timeline.micros
        if self._load.every_ms:
            self._tick()
        for number in range(1, self._load.publishers):
            self._timeline.after(BEGIN_MS * number / self._load.publishers, partial(self._next, number))
        if self._load.publishers:
            self._next(0)
        return course

    def finish(self) -> Course:
        account, timeline, course = self._account, self._timeline, self.course
        while self._is_ticking or self._asking or self._open or not account.is_idle:
            timeline.play_until(timeline.now + STEP_MS)
            assert timeline.micros < max(course.began, course.seen_at) + 1_000_000 * IDLE_S_MAX, "messages are stuck"
        (read, written), (read_before, written_before) = account.units(), self._before[0]
        course.usage.units["read"], course.usage.units["write"] = read - read_before, written - written_before
        course.usage.cpu_ms = account.timeline.cpu_ms - self._cpu_before
        for operation, count in (account.pollers.requests - self._before[1]).items():
            course.usage.calls["poll", operation] += count
        busiest = (account.pollers.served_ms - self._before[2]).most_common(1)
        course.group_busy = busiest[0][1] * 1000 / (course.ended - course.began) if busiest else 0.0
        course.most_running = account.meter.most_running
        return course

    def _tick(self) -> None:
        self._is_ticking = self._goes_on(len(self.course.sent))
        if self._is_ticking:
            self._ask(0, lambda: None)
            self._timeline.after(self._load.every_ms, self._tick)

    def _next(self, number: int) -> None:
        if not self._goes_on(len(self.course.sent)):
            return
        if self._open >= self._load.open_max:
            self._waiting.append(number)
            return
        self._ask(number, partial(self._next, number))

    def _ask(self, publisher: int, then: Callable[[], None]) -> None:
        """Send one request, to the publish function's URL if there is one; either's own time is half before it."""
        account, at_once = self._account, self._account.cell.at_once
        self._asking += 1
        serials = range(self._serial, self._serial + at_once)
        self._serial += at_once
        self._open += at_once
        messages = []
        for serial in serials:
            self.course.sent[serial] = Sent(self._timeline.micros, publisher)
            message = {"body": order(serial)}
            if account.cell.ordering is Ordering.KEY:
                message["ordering_key"] = f"k{publisher % KEYS}"
            messages.append(message)
        path = ("topics", TOPIC, "messages", *(("batch",) if at_once > 1 else ()))
        body = {"messages": messages} if at_once > 1 else messages[0]
        half_ms = sum(limits.latency("apigateway", "*")) / 4

        def answered(answer: Answer) -> None:
            self._asking -= 1
            if answer.status >= 300:
                self._lost(serials)
                self._timeline.after(AGAIN_MS, then)
            else:
                self._timeline.after(half_ms, then)

        url = account.deployment.publish_url
        if url is None:
            account.meter.usage.api_requests += 1
        ask = account.deployment.api.ask if url is None else url.ask
        self._timeline.after(half_ms, lambda: ask("POST", path, answered, body=body))

    def _lost(self, serials: range) -> None:
        """Forget what was refused; it may have been stored, and be pushed all the same."""
        for serial in serials:
            sent = self.course.sent.pop(serial)
            self.course.refused += 1
            if not sent.done_at:
                self._close()

    def _seen(self, serial: int) -> None:
        sent = self.course.sent.get(serial)
        if sent is None:
            return
        sent.pushes += 1
        self.course.pushes += 1
        self.course.seen_at = self._timeline.micros
        if sent.pushes > self._account.cell.subscriptions:
            self.course.extra += 1
            return
        self.course.latencies.append(self._timeline.micros - sent.at)
        if sent.pushes == self._account.cell.subscriptions:
            sent.done_at = self.course.ended = self._timeline.micros
            self._close()

    def _close(self) -> None:
        self._open -= 1
        if self._waiting and self._open < self._load.open_max:
            self._timeline.after(0, partial(self._next, self._waiting.pop(0)))
