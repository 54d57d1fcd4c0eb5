"""1,000 endpoints of which 100 take 0.5 s, less than a batch waits for an answer: ``python -m tests.benchmarks.push``.

A first round as fan-out makes it, but for the table, which is in memory. The receivers are one process on many
loopback addresses (Linux), so that each has a connection of its own. The figures are ratios to the slowest endpoint as
measured in the same run, never bare seconds; on a machine that does other work they say little, and processor time per
push says more.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tagcast.model import (
    Outcome,
    Push,
)
from tagcast.pushing.engine import LastPushes
from tagcast.registry.subscriptions import put_subscription
from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.pusher import EndpointPusher
from tagcast_aws.runtime.settings import Reach
from tagcast_aws.runtime.system import SystemClock

from functions.fan_out.app import handle
from tests.benchmarks.ratios import report
from tests.benchmarks.receivers import Receiver, receivers
from tests.fakes.queue_records import in_one_order
from tests.fakes.settings import settings_for
from tests.fakes.world import FakeWorld

ENDPOINTS, SLOW, SLOW_S = 1_000, 100, 0.5
ROUNDS = 3
RATIO_MAX = 1.3
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class SomeSlow(Receiver):
    """Answers at once, or after 0.5 s (path ``/slow``)."""

    def answer(self, head: bytes) -> tuple[bytes, float]:
        return ANSWER, SLOW_S if head.startswith(b"POST /slow") else 0.0


class WatchedPusher(EndpointPusher):
    """Remembers when each push was answered."""

    def __init__(self) -> None:
        super().__init__(AdapterEnvironment(SystemClock(), "0", reach=Reach.ANY))
        self.done_at: list[float] = []

    async def push(self, push: Push) -> Outcome:
        outcome = await super().push(push)
        assert outcome.delivered, outcome
        self.done_at.append(time.perf_counter())
        return outcome


@dataclass(frozen=True)
class Figures:
    """Of one round: seconds until the last answer, processor seconds, and seconds until nine of ten had answered."""

    wall_s: float
    cpu_s: float
    fast_s: float


class Topic:
    """One topic with so many endpoints, every tenth slow up to so many, in a process that knows none of them."""

    def __init__(self, port: int, endpoints: int) -> None:
        self.endpoints, self.fake, self.pusher = endpoints, FakeWorld(), WatchedPusher()
        self.world = self.fake.world = replace(self.fake.world, clock=SystemClock(), pusher=self.pusher)
        self.fake.topic()
        for number in range(endpoints):
            path = "slow" if number % (ENDPOINTS // SLOW) == 0 else "fast"
            target = f"http://127.0.{number // 250 + 1}.{number % 250 + 1}:{port}/{path}"
            settings = settings_for(target, secret="whsec_c2VjcmV0")
            put_subscription(self.world, "test1", f"s{number}", settings)

    def round(self) -> Figures:
        batch = in_one_order(self.fake.publish("x" * 2048))
        self.pusher.done_at = []
        began, cpu = time.perf_counter(), time.process_time()
        assert self.pusher.run(handle(batch, self.world)) == {"batchItemFailures": []}
        cpu_s, done = time.process_time() - cpu, sorted(self.pusher.done_at)
        if len(done) < self.endpoints:
            raise SystemExit("some answers came later than a batch waits for them: this machine is too busy")
        return Figures(done[-1] - began, cpu_s, done[(ENDPOINTS - SLOW) * len(done) // ENDPOINTS - 1] - began)

    def strange_round(self) -> Figures:
        """Bring one on kept connections, but without any memory of how long each took the last time."""
        self.world.memory.of(LastPushes).clear()
        return self.round()


@contextmanager
def topic(port: int, endpoints: int) -> Iterator[Topic]:
    """Give a topic, and close its connections when the block ends."""
    made = Topic(port, endpoints)
    try:
        yield made
    finally:
        made.pusher.close()


def quickest(figures: Iterator[Figures]) -> Figures:
    """Return the round that other work of this machine held up least."""
    return min(figures, key=lambda each: each.wall_s)


def measure() -> tuple[float, dict[str, Figures]]:
    """Return the seconds of the slowest endpoint alone, and the figures of every kind of round."""
    with receivers(SomeSlow) as port:
        with topic(port, 1) as alone:
            slowest_s = quickest(alone.round() for _ in range(ROUNDS)).wall_s
        with topic(port, ENDPOINTS) as all_:
            return slowest_s, {
                "cold": all_.round(),
                "connected, none known": quickest(all_.strange_round() for _ in range(ROUNDS)),
                "connected, all known": quickest(all_.round() for _ in range(ROUNDS)),
            }


def table(slowest_s: float, rounds: dict[str, Figures]) -> str:
    lines = [f"{ENDPOINTS} endpoints, {SLOW} of them slow; the slowest alone takes {slowest_s:.3f} s"]
    lines.append(f"{'':24}{'/ slowest':>10}{'CPU us/push':>13}{'fast ones s':>13}")
    for name, figures in rounds.items():
        cpu_us = figures.cpu_s / ENDPOINTS * 1e6
        lines.append(f"{name:24}{figures.wall_s / slowest_s:10.2f}{cpu_us:13.0f}{figures.fast_s:13.2f}")
    return "\n".join(lines)


def main() -> None:
    """Print the table; exit with a fault when a round takes much longer than its slowest endpoint."""
    slowest_s, rounds = measure()
    print(table(slowest_s, rounds))
    ratio = slowest_s / rounds["connected, all known"].wall_s
    report("a round to 1,000 endpoints", ratio, "its slowest endpoint alone", 1 / RATIO_MAX)
    raise SystemExit("a round takes too long" if ratio < 1 / RATIO_MAX else 0)


if __name__ == "__main__":
    main()
