"""Wide messages: writes, time and memory of topics with many subscriptions, all of which match; a script.

    python -m tests.benchmarks.wide [SUBSCRIPTIONS ...]

The shipped publish and fan-out run in this process over the table in memory, with receivers that answer at once. Each
line is a process of its own. *read in* is how long it takes a process to read and keep a topic that nobody kept, and
*known in* one that knows nothing of a topic that is kept, both without the time of the table; *published in* is with
the index of all filters, which the first to publish builds; *a thousand* is one section: its reads, pushes and writes.
After each section the relay hears of its round, as if the stream told of each alone: *let go* is how long that takes
for all of them, *looked at for* the read units by which it finds the last one.
"""

import asyncio
import multiprocessing
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tagcast.delivery.fan_out import fan_out
from tagcast.model import (
    Outcome,
    Push,
    RetryPolicy,
    Strategy,
    Subscription,
)
from tagcast.ports import Memory, Row, Table
from tagcast.pushing.push_slots import PushSlots
from tagcast.registry.directory import kept_directory_of, read_topic
from tagcast.repairing.relay import EndArrival, relay
from tagcast.rows.keys import topic_key
from tagcast.rows.subscription import subscription_put

from tests.fakes.memory_store import MemoryStore
from tests.fakes.settings import settings_for
from tests.fakes.whole_message import whole_message
from tests.fakes.world import OK, FakeWorld
from tests.item_size import row_size

HEADING = (
    "| subscriptions | entries | writes (per 1,000) | read in | known in | published in | a thousand | let go | "
    "looked at for | memory besides |"
)
SIZES = (1_000, 10_000, 100_000)
WRITES_MAX = 1.1
"""So many writes for each thousand entries."""


class Counting:
    """Receivers that answer at once; of each is known how often it was asked."""

    def __init__(self) -> None:
        self.pushes: Counter[int] = Counter()

    async def push(self, push: Push) -> Outcome:
        self.pushes[push.subscription.ordinal] += 1
        return OK


class Metered(MemoryStore):
    """Counts the read units of queries in the partitions of messages."""

    def __init__(self) -> None:
        super().__init__()
        self.units = 0

    def query(self, table: Table, pk: str, **bounds: Any) -> list[Row]:
        rows = super().query(table, pk, **bounds)
        if pk.startswith("MSG#"):
            self.units += -(-sum(map(row_size, rows)) // 4096)
        return rows


def topic_with(count: int) -> FakeWorld:
    """Return a world with a topic that has so many subscriptions, each of which wants everything."""
    fake = FakeWorld(store=Metered())
    fake.topic("wide")
    topic = read_topic(fake.world, "wide")
    for ordinal in range(count):
        settings = settings_for(
            f"https://receiver-{ordinal}.example.com/hooks/orders",
            RetryPolicy(Strategy.EXPONENTIAL_DECAY_RETRY, 176),
            filter={"kind": "tags", "tags": ["order", f"region-{ordinal % 50}"]},
        )
        one = Subscription("wide", f"subscriber-{ordinal:06d}", topic.topic_id, ordinal, settings, 1, 1, 1)
        fake.store.write(subscription_put(one, None))
    counted = {"subscription_count": count, "next_ordinal": count, "subscriptions_version": count}
    fake.store.rows[topic_key("wide")].update(counted)
    return fake


def measure(count: int) -> None:
    """Print the line of a topic with so many subscriptions; exit with a fault when it is over budget."""
    fake = topic_with(count)
    stored_mib = peak_mib()
    receivers = Counting()
    world = replace(fake.world, pusher=receivers, memory=Memory())  # type: ignore[arg-type]  # Nobody asks for batches.
    read_s = cpu_s(lambda: kept_directory_of(world, "wide"))
    world = replace(world, memory=Memory())
    known_s = cpu_s(lambda: kept_directory_of(world, "wide"))
    fake.world = world
    writes = fake.store.writes
    began = time.process_time()
    [message_id] = fake.publish("x" * 1_000, tags=["order"], topic="wide")
    published_s = time.process_time() - began
    entries = len(fake.queue.entries)
    began = time.process_time()
    let_go_s = deliver(fake, message_id)
    each_s = (time.process_time() - began - let_go_s) / max(1, entries)
    assert isinstance(fake.store, Metered)
    units = fake.store.units
    row = whole_message(fake.store, "wide", message_id)
    assert row is not None
    assert not row.has_body, "nothing is pending"
    assert receivers.pushes == dict.fromkeys(range(count), 1), "everybody got it once"
    writes = fake.store.writes - writes
    per_thousand = writes * 1_000 / count
    print(
        f"| {count:,} | {entries} | {writes} ({per_thousand:.2f}) | {read_s:.1f} s | {known_s:.2f} s "
        f"| {published_s * 1000:.0f} ms | {each_s * 1000:.0f} ms | {let_go_s:.1f} s | {units:,} units "
        f"| {peak_mib() - stored_mib:.0f} MiB |",
        flush=True,
    )
    if count >= 100_000 and per_thousand > WRITES_MAX:
        raise SystemExit(f"{per_thousand:.2f} writes for a thousand entries")


def cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def deliver(fake: FakeWorld, message_id: str) -> float:
    """Let each entry be served alone, as Lambda serves those that stand in no order; return what the relay took."""
    let_go_s = 0.0

    async def serve() -> None:
        nonlocal let_go_s
        for entry in fake.queue.entries:
            async with PushSlots(fake.clock) as slots:
                assert await fan_out(fake.world, "wide", [entry], slots) == ()
            let_go_s += cpu_s(lambda: relay(fake.world, [EndArrival("wide", message_id)]))

    asyncio.run(serve())
    return let_go_s


def peak_mib() -> float:
    """Return the most memory that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    print(HEADING)
    print("|---|---|---|---|---|---|---|---|---|---|")
    for count in [int(each) for each in sys.argv[1:]] or SIZES:
        process = multiprocessing.Process(target=measure, args=(count,))
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(process.exitcode)


if __name__ == "__main__":
    main()
