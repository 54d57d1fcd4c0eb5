"""What one message that its receiver always refuses costs the others: ``python -m tests.benchmarks.poison``.

On the local stack, for each strategy without an order: a thousand messages to a receiver that takes all of them, then a
thousand to one that refuses the hundredth with 422. Printed are the messages a second that get through, how long after
its publish a message comes (p50 and p99), and the ratios of both to those without the refused message. Under
EXPONENTIAL_DECAY_RETRY everything waits for that one: its retries end after three, so that the run ends.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tagcast_client import Client, DecayRetry, IndependentRetry, Retry

from tests.benchmarks.receivers import Receiver
from tests.running_stack import start_stack, wait_until

MESSAGES, PUBLISHERS, POISON, WARMING = 1_000, 4, 99, 40
PATIENCE_S = 120.0
TAKEN, REFUSED = b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 422 No\r\ncontent-length: 0\r\n\r\n"
DECAY: DecayRetry = {"strategy": "EXPONENTIAL_DECAY_RETRY", "max_retries": 3}
INDEPENDENT: IndependentRetry = {"strategy": "INDEPENDENT_RETRY"}
RETRIES: Mapping[str, Retry] = {"independent": INDEPENDENT, "decay": DECAY}


@dataclass
class Pushes:
    """When each message got through."""

    at: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def received(self) -> Iterator[str]:
        """The URL of an endpoint, in a thread of its own, until the block ends."""
        loop = asyncio.new_event_loop()
        server = loop.run_until_complete(loop.create_server(lambda: _Endpoint(self), "127.0.0.1", 0, backlog=4_096))
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()
            loop.close()


class _Endpoint(Receiver):
    def __init__(self, pushes: Pushes) -> None:
        self._pushes = pushes

    def answer(self, head: bytes) -> tuple[bytes, float]:
        path = head.split(b" ", 2)[1].decode()
        if path.endswith("poisoned") and b'["poison"]' in head:
            return REFUSED, 0.0
        message_id = head.partition(b"webhook-id: ")[2].split(b"\r\n", 1)[0].decode()
        self._pushes.at.setdefault(message_id, time.monotonic())
        return TAKEN, 0.0


@dataclass(frozen=True)
class Figures:
    """What came of a thousand messages: how many got through in a second, and how long after its publish one came."""

    rate: float
    p50_ms: float
    p99_ms: float

    @property
    def told(self) -> str:
        return f"{self.rate:.0f}/s, p50 {self.p50_ms:.0f} ms, p99 {self.p99_ms:.0f} ms"

    def beside(self, alone: Figures) -> str:
        """Say how these compare with those without a refused message."""
        return (
            f"{self.rate / alone.rate:.2f} of the rate, {self.p50_ms / alone.p50_ms:.2f} of p50, "
            f"{self.p99_ms / alone.p99_ms:.2f} of p99"
        )


def carried(client: Client, pushes: Pushes, topic: str, url: str, retry: Retry, messages: int) -> Figures:
    """Publish *messages*, the hundredth with the tag of the one that may be refused."""
    client.create_topic(topic, ordering="none")
    client.create_subscription(topic, "s", url, retry=retry)
    with ThreadPoolExecutor(PUBLISHERS) as publishers:
        list(publishers.map(lambda _: client.publish(topic, "warm"), range(WARMING)))
    assert wait_until(lambda: len(pushes.at) >= WARMING)
    pushes.at.clear()
    sent: dict[str, float] = {}

    def publish(number: int) -> None:
        began = time.monotonic()
        tags = ("poison",) if number == POISON else ()
        message_id = client.publish(topic, f"{number}", tags=tags).message_id
        if number != POISON:
            sent[message_id] = began

    began = time.monotonic()
    with ThreadPoolExecutor(PUBLISHERS) as publishers:
        list(publishers.map(publish, range(messages)))
    assert wait_until(lambda: sent.keys() <= pushes.at.keys(), PATIENCE_S)
    waits = [1000 * (pushes.at[message_id] - at) for message_id, at in sent.items()]
    took_s = max(pushes.at[message_id] for message_id in sent) - began
    pushes.at.clear()
    return Figures(len(sent) / took_s, statistics.median(waits), statistics.quantiles(waits, n=100)[98])


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.poison")
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"of each run; the {POISON + 1}th is refused")
    messages = parser.parse_args().messages
    pushes = Pushes()
    with pushes.received() as url, tempfile.TemporaryDirectory() as folder:
        stack = start_stack(Path(folder) / "data")
        try:
            with Client(stack.url) as client:
                for name, retry in RETRIES.items():
                    alone = carried(client, pushes, f"{name}-alone", f"{url}/taken", retry, messages)
                    print(f"{name}, none refused: {alone.told}")
                    beside = carried(client, pushes, f"{name}-poisoned", f"{url}/poisoned", retry, messages)
                    print(f"{name}, one refused: {beside.told}; {beside.beside(alone)}", flush=True)
        finally:
            stack.stop()


if __name__ == "__main__":
    main()
