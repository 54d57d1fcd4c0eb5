"""1,000 endpoints of which 100 take a second; a script, and a benchmark for pytest.

The receivers are one process on many loopback addresses (Linux), so that each has a connection of its own; so many
pushes are under way at once as the core has slots. The figures are ratios to the slowest endpoint as measured in the
same run, never bare seconds; on a machine that does other work they say little, and processor time per push says more.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest
from tagcast.model import (
    ContentFormat,
    Draft,
    Endpoint,
    Message,
    Protocol,
    Push,
    RetryPolicy,
    Strategy,
    Subscription,
    SubscriptionSettings,
)
from tagcast.pushing.push_slots import SLOTS
from tagcast_aws.endpoints.adapter import Surroundings
from tagcast_aws.endpoints.pusher import EndpointPusher

from tests.benchmarks.receivers import Receiver, receivers
from tests.fakes.stopped_clock import StoppedClock

ENDPOINTS, SLOW, SLOW_S = 1_000, 100, 1.0
RATIO_MAX = 1.3
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class SomeSlow(Receiver):
    """Answers at once, or after a second (path ``/slow``)."""

    def answer(self, head: bytes) -> tuple[bytes, float]:
        return ANSWER, SLOW_S if head.startswith(b"POST /slow") else 0.0


def push_to(number: int, port: int) -> Push:
    path = "slow" if number % (ENDPOINTS // SLOW) == 0 else "fast"
    target = f"http://127.0.{number // 250 + 1}.{number % 250 + 1}:{port}/{path}"
    subscription = Subscription(
        topic="fruit",
        name=f"s{number}",
        topic_id="07457000000000000001",
        ordinal=number,
        settings=SubscriptionSettings(
            endpoint=Endpoint(Protocol.HTTP, target),
            filter=None,
            retry=RetryPolicy(Strategy.BACKOFF_RETRY, 3),
            timeout_s=15,
            content_format=ContentFormat.JSON,
            secret="whsec_c2VjcmV0",
        ),
        version=1,
        created_at=0,
        updated_at=0,
    )
    return Push(subscription, Message("fruit", "07457000000000000042", Draft(b"x" * 2048), 0, 1), 1)


async def round_of(pusher: EndpointPusher, pushes: list[Push], slots: int) -> dict[str, float]:
    """Push to all with so many *slots*; return wall and processor seconds, and when the fast ones were done."""
    free = asyncio.Semaphore(slots)
    started, cpu = time.perf_counter(), time.process_time()

    async def one(push: Push) -> float:
        async with free:
            outcome = await pusher.push(push)
        assert outcome.delivered, outcome
        return time.perf_counter() - started

    done = await asyncio.gather(*map(one, pushes))
    targets = (push.subscription.settings.endpoint.target for push in pushes)
    fast = sorted(at for at, target in zip(done, targets, strict=True) if target.endswith("fast"))
    return {
        "wall": max(done),
        "cpu": time.process_time() - cpu,
        "fast_p50": statistics.median(fast) if fast else 0.0,
        "fast_p99": fast[len(fast) * 99 // 100] if fast else 0.0,
    }


def measure() -> tuple[float, dict[str, dict[str, float]]]:
    """Return the seconds of the slowest endpoint alone, and the figures of every way to push."""
    with receivers(SomeSlow) as port:
        pushes = [push_to(number, port) for number in range(ENDPOINTS)]
        rounds: dict[str, dict[str, float]] = {}
        for name, slots in ((f"{SLOTS} slots", SLOTS), ("64 slots", 64)):
            pusher = EndpointPusher(Surroundings(StoppedClock(1_700_000_000_000), "0", allow_private=True))
            rounds[f"{name}, cold"] = pusher.run(round_of(pusher, pushes, slots))
            rounds[f"{name}, warm"] = pusher.run(round_of(pusher, pushes, slots))
            pusher.close()
        pusher = EndpointPusher(Surroundings(StoppedClock(1_700_000_000_000), "0", allow_private=True))
        slowest = max(pusher.run(round_of(pusher, pushes[:1], 1))["wall"] for _ in range(3))
        pusher.close()
    return slowest, rounds


def table(slowest: float, rounds: dict[str, dict[str, float]]) -> str:
    lines = [f"{ENDPOINTS} endpoints, {SLOW} of them slow; the slowest alone takes {slowest:.3f} s"]
    lines.append(f"{'':28}{'/ slowest':>10}{'CPU us/push':>13}{'fast p50 s':>12}{'fast p99 s':>12}")
    for name, figures in rounds.items():
        lines.append(
            f"{name:28}{figures['wall'] / slowest:10.2f}{figures['cpu'] / ENDPOINTS * 1e6:13.0f}"
            f"{figures['fast_p50']:12.2f}{figures['fast_p99']:12.2f}"
        )
    return "\n".join(lines)


@pytest.mark.benchmark
def test_a_hundred_slow_endpoints_do_not_delay_the_others() -> None:
    slowest, rounds = measure()
    print("\n" + table(slowest, rounds))
    assert rounds[f"{SLOTS} slots, warm"]["wall"] <= RATIO_MAX * slowest
    assert rounds[f"{SLOTS} slots, cold"]["wall"] < rounds["64 slots, cold"]["wall"]


if __name__ == "__main__":
    print(table(*measure()))
