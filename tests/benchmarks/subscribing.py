"""What a thousand subscriptions cost, one by one and a hundred a request: ``python -m tests.benchmarks.subscribing``.

The shipped handler over a store in memory that counts. Counts do not depend on the machine; seconds are the handler's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tagcast.ports import Key, Row, Write

from tests.fakes.handlers import answered
from tests.fakes.memory_store import MemoryStore
from tests.fakes.world import FakeWorld

SUBSCRIPTIONS, TOGETHER = 1_000, 100
HOOK = {"protocol": "https", "url": "https://example.com/hook"}


class CountingStore(MemoryStore):
    """Counts the calls besides the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def get(self, key: Key) -> Row | None:
        self.calls += 1
        return super().get(key)

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Row]:
        self.calls += 1
        return super().get_many(keys)

    def transact(self, writes: Sequence[Write]) -> None:
        self.calls += 1
        super().transact(writes)


def singly() -> Iterator[tuple[str, str, Any]]:
    """Yield a request for each."""
    for number in range(SUBSCRIPTIONS):
        yield "PUT", f"/topics/t/subscriptions/s{number}", {"endpoint": HOOK}


def together() -> Iterator[tuple[str, str, Any]]:
    """Yield a request for each hundred."""
    for first in range(0, SUBSCRIPTIONS, TOGETHER):
        items = [{"name": f"s{number}", "endpoint": HOOK} for number in range(first, first + TOGETHER)]
        yield "POST", "/topics/t/subscriptions/batch", {"subscriptions": items}


def cost(requests: Sequence[tuple[str, str, Any]]) -> str:
    """Return what the requests cost."""
    store = CountingStore()
    fake = FakeWorld(store=store)
    fake.topic("t")
    store.calls = store.writes = store.rows_read = 0
    began = time.perf_counter()
    for method, path, body in requests:
        assert answered(fake.world, method, path, json.dumps(body))["statusCode"] in (200, 201)
    took_s = time.perf_counter() - began
    return (
        f"{len(requests):5} requests, {store.calls:5} calls of the table, {store.rows_read:5} rows read,"
        f" {store.writes:5} written, {took_s:5.2f} s"
    )


def main() -> None:
    """Print one line for each way."""
    print("one by one    ", cost(list(singly())))
    print("100 a request ", cost(list(together())))


if __name__ == "__main__":
    main()
