"""Healthy receivers beside hanging and failing ones, over real sockets.

    python -m tests.benchmarks.fair_pushes [CASES]

All receivers are one process on many loopback addresses (Linux): each is a host of its own. A call of the table takes
5 ms in a thread, as one of AWS does. The figures are ratios to the healthy receivers alone, in the same run.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tagcast.model import (
    EntryState,
    Outcome,
    Push,
    RetryPolicy,
    Strategy,
)
from tagcast.ports import Key, Row, Table, Write
from tagcast.registry.subscriptions import put_subscription
from tagcast.rows.keys import message_key
from tagcast.rows.message import MESSAGES
from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.pusher import EndpointPusher
from tagcast_aws.runtime.clock import SystemClock
from tagcast_aws.runtime.executor import ThreadExecutor

from functions.fan_out.app import handle
from tests.benchmarks.harness import settings_for
from tests.benchmarks.receivers import Receiver, receivers
from tests.fakes.queue_records import in_one_order
from tests.fakes.virtual_time import PartitionedStore
from tests.fakes.world import FakeWorld

CALL_S = 0.005
RATIO_MAX = 1.3
BACKOFF, DECAY = Strategy.BACKOFF_RETRY, Strategy.EXPONENTIAL_DECAY_RETRY


class AsTold(Receiver):
    """Answers as the path says, ``/STATUS/MILLISECONDS``; status 0 never."""

    def answer(self, head: bytes) -> tuple[bytes, float]:
        status, delay_ms = head.split(b" ")[1].split(b"/")[1:3]
        content = b"" if status == b"0" else b"HTTP/1.1 %s X\r\nContent-Length: 2\r\n\r\nok" % status
        return content, int(delay_ms) / 1000


class SlowTable(PartitionedStore):
    """The table in memory; each call takes 5 ms of whichever thread makes it."""

    def __init__(self) -> None:
        super().__init__()
        self.call_s = 0.0
        self._lock = threading.Lock()

    def get(self, key: Key) -> Row | None:
        time.sleep(self.call_s)
        return super().get(key)

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Row]:
        time.sleep(self.call_s)
        return super().get_many(keys)

    def query(self, table: Table, pk: str, **bounds: Any) -> list[Row]:
        time.sleep(self.call_s)
        return super().query(table, pk, **bounds)

    def transact(self, writes: Sequence[Write]) -> None:
        time.sleep(self.call_s)
        with self._lock:
            super().transact(writes)


class WatchedPusher(EndpointPusher):
    """Remembers when the last push of each subscription ended, and which failed."""

    def __init__(self) -> None:
        super().__init__(AdapterEnvironment(SystemClock(), "0", allow_private=True))
        self.done_at: dict[str, float] = {}
        self.failed: dict[str, str] = {}

    async def push(self, push: Push) -> Outcome:
        outcome = await super().push(push)
        self.done_at[push.subscription.name] = time.perf_counter()
        if not outcome.delivered:
            self.failed[push.subscription.name] = outcome.detail
        return outcome


@dataclass(frozen=True)
class Kind:
    """So many receivers that answer alike, each at an address of its own."""

    name: str
    count: int
    status: int = 200
    delay_ms: int = 50
    timeout_s: int = 5
    known: bool = True
    """Served once before, as by an environment that is warm."""
    strategy: Strategy = BACKOFF


@dataclass(frozen=True)
class Figures:
    """What came of one batch: seconds until the healthy ones were done and until it ended; entries of healthy ones."""

    healthy_s: float
    took_s: float
    delivered: int
    charged: int
    left: int


def first_round(port: int, kinds: Sequence[Kind], messages: int) -> Figures:
    """Serve one batch in a fresh process's world; the kind ``healthy`` is looked at."""
    store = SlowTable()
    fake, clock = FakeWorld(store=store), SystemClock()
    pusher = WatchedPusher()
    fake.world = world = replace(fake.world, clock=clock, pusher=pusher, executor=ThreadExecutor())
    fake.topic()
    number, ordinals = 0, set()
    for kind in kinds:
        for place in range(kind.count):
            host = f"127.{kinds.index(kind) + 1}.{place // 250}.{place % 250 + 1}:{port}"
            target = f"http://{host}/{kind.status}/{kind.delay_ms}"
            settings = settings_for(
                target,
                RetryPolicy(kind.strategy, 3),
                filter=None if kind.known else {"kind": "tags", "tags": ["all"]},
                timeout_s=kind.timeout_s,
                secret="whsec_c2VjcmV0",
            )
            put_subscription(world, "test1", f"{kind.name}{place}", settings)
            if kind.name == "healthy":
                ordinals.add(number)
            number += 1

    def serve_batch(bodies: list[str], tag: str) -> tuple[list[str], float, float]:
        ids = fake.publish(*bodies, tags=(tag,))
        store.call_s = CALL_S
        began = time.perf_counter()
        assert pusher.run(handle(in_one_order(ids), world)) == {"batchItemFailures": []}
        return ids, began, time.perf_counter() - began

    if any(kind.known for kind in kinds):
        serve_batch(["warm"], "known")
    ids, began, took_s = serve_batch([f"{place} {'x' * 1000}" for place in range(messages)], "all")
    store.call_s = 0.0
    pusher.close()
    maps = [MESSAGES.value_of(fake.store.rows[message_key("test1", each)]).map for each in ids]
    entries = [each.entry(ordinal).state for each in maps for ordinal in ordinals]
    return Figures(
        healthy_s=max(at for name, at in pusher.done_at.items() if name.startswith("healthy")) - began,
        took_s=took_s,
        delivered=entries.count(EntryState.DELIVERED),
        charged=sum(name.startswith("healthy") for name in pusher.failed),
        left=entries.count(EntryState.PENDING),
    )


CASES = [
    (hanging, replace(healthy, strategy=strategy), messages)
    for hanging, healthy in (
        (Kind("hanging", 400, 0, timeout_s=3), Kind("healthy", 1)),
        (Kind("hanging", 700, 0, timeout_s=3), Kind("healthy", 1)),
        (Kind("hanging", 700, 0, timeout_s=3), Kind("healthy", 100, delay_ms=100)),
        (Kind("failing", 400, 500, delay_ms=0, timeout_s=1), Kind("healthy", 100, delay_ms=300, timeout_s=1)),
    )
    for strategy in (BACKOFF, DECAY)
    for messages in (1, 5)
]


def measure(known: bool, cases: int) -> Iterator[tuple[str, Figures, Figures]]:
    """Yield each case with the figures of the healthy receivers alone and beside the others.

    *known* says whether this process pushed to the healthy ones before: then they start first. Otherwise the start
    of hundreds of other pushes, half a millisecond each, is part of their time.
    """
    with receivers(AsTold) as port:
        first_round(port, [Kind("healthy", 10)], 1)
        for others, kind, messages in CASES[:cases]:
            healthy = replace(kind, known=known)
            alone = first_round(port, [healthy], messages)
            beside = first_round(port, [replace(others, known=False, strategy=kind.strategy), healthy], messages)
            name = f"{others.count} {others.name} ({others.timeout_s} s), {kind.count} healthy ({kind.delay_ms} ms)"
            yield f"{name}, {messages} messages, {kind.strategy.value}", alone, beside
        if cases < len(CASES):
            return
        failing = Kind("failing", 999, 500, delay_ms=0, known=False)
        healthy = Kind("healthy", 1)
        yield "999 failing, 10 messages", first_round(port, [healthy], 10), first_round(port, [failing, healthy], 10)


def told(name: str, alone: Figures, beside: Figures) -> str:
    return (
        f"{name:88} alone {alone.healthy_s:5.2f} s, beside {beside.healthy_s / alone.healthy_s:5.2f} times that; "
        f"batch {beside.took_s:5.1f} s; delivered {beside.delivered}, charged {beside.charged}, to lanes {beside.left}"
    )


def main() -> None:
    """Print the figures; exit with a fault when receivers that the process knows are delayed, charged or left."""
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else len(CASES)
    misses = []
    for known in (True, False):
        print("Receivers that the process knows:" if known else "Receivers that nobody knows yet:")
        for name, alone, beside in measure(known, cases):
            print(told(name, alone, beside), flush=True)
            if known and (beside.charged or beside.left or beside.healthy_s > RATIO_MAX * alone.healthy_s):
                misses.append(name)
    raise SystemExit("; ".join(misses) or 0)


if __name__ == "__main__":
    main()
