"""What the local stack carries: ``python -m tests.benchmarks.local_stack``.

Three receivers that answer at once, four publishers: messages a second from the first publish to the last push, singly
and in batches of 16, with subscribers that keep no order and with such that do; how long a push comes after its publish
at ten messages a second; and what the stack uses while nothing happens. The goals are those of two free cores. On a
machine that does other things, which the load beside each figure shows, the CPU that a message costs is what can be
compared: of each process of the stack, of the publishers and receivers, which are this one, and of all.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tagcast_client import BackoffRetry, Client, DecayRetry, NewMessage, Retry

from tests.benchmarks.receivers import Receiver
from tests.running_stack import start_stack, wait_until

SUBSCRIBERS, PUBLISHERS, BATCH, PACED = 3, 4, 16, 50
WARMING, MESSAGES = 40, 480
CALM_S, IDLE_S, PATIENCE_S = 15.0, 60.0, 300.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FUNCTION = re.compile(r"\0AWS_LAMBDA_FUNCTION_NAME=tagcast-([^\0]*)")
GOALS = {BATCH: 300, 1: 120}
"""Messages a second by how many are published at once."""
WAIT_MS_GOAL, IDLE_GOAL = 30, 3
BACKLOG = 4_096
TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"
DECAY: DecayRetry = {"strategy": "EXPONENTIAL_DECAY_RETRY"}
BACKOFF: BackoffRetry = {"strategy": "BACKOFF_RETRY"}
RETRIES: Mapping[str, Retry] = {"unordered": DECAY, "ordered": BACKOFF}


class Subscribers(Receiver):
    """An endpoint whose paths are the subscribers: notes when each message came, and takes it."""

    def __init__(self, at: dict[tuple[str, str], float]) -> None:
        self._at = at

    def answer(self, head: bytes) -> tuple[bytes, float]:
        message_id = head.partition(b"webhook-id: ")[2].split(b"\r\n", 1)[0].decode()
        self._at.setdefault((message_id, head.split(b" ", 2)[1].decode()), time.monotonic())
        return TAKEN, 0.0


@dataclass
class Pushes:
    """When each message first came to each subscriber."""

    at: dict[tuple[str, str], float] = field(default_factory=dict)

    @contextmanager
    def received(self) -> Iterator[str]:
        """The URL of an endpoint, in a thread of its own, until the block ends."""
        loop = asyncio.new_event_loop()
        server = loop.run_until_complete(
            loop.create_server(lambda: Subscribers(self.at), "127.0.0.1", 0, backlog=BACKLOG)
        )
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()
            loop.close()


def cpu_s(root: int) -> Mapping[str, float]:
    """CPU seconds of *root* and of all its descendants by now, by what they are: a module, or a function."""
    parents: dict[int, int] = {}
    used: dict[int, tuple[str, float]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            function = FUNCTION.search((entry / "environ").read_bytes().decode(errors="replace"))
        except OSError:  # It ended meanwhile.
            continue
        parents[int(entry.name)] = int(fields[1])
        used[int(entry.name)] = (
            function[1] if function else " ".join(words[1:3]),
            (int(fields[11]) + int(fields[12])) / TICKS_PER_S,
        )
    mine = {root}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    found: dict[str, float] = defaultdict(float)
    for name, seconds in (used[pid] for pid in mine & used.keys()):
        found[name] += seconds
    return found


def load() -> str:
    """How many processes want the cores."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


@dataclass(frozen=True)
class Bench:
    """A running stack, its client, and what came to its subscribers."""

    root: int
    client: Client
    pushes: Pushes

    def subscribe(self, topic: str, url: str, retry: Retry) -> None:
        """Make a topic with its subscribers, and let first messages start every worker."""
        self.client.create_topic(topic)
        for number in range(SUBSCRIBERS):
            self.client.create_subscription(topic, f"s{number}", f"{url}/{topic}{number}", retry=retry)
        before = len(self.pushes.at)
        with ThreadPoolExecutor(PUBLISHERS) as publishers:
            list(publishers.map(lambda _: self.client.publish(topic, "warm"), range(WARMING)))
        assert wait_until(lambda: len(self.pushes.at) == before + WARMING * SUBSCRIBERS)

    def cpu_s(self) -> Mapping[str, float]:
        """CPU seconds by now, of the processes of the stack and of this one."""
        return {**cpu_s(self.root), "publishers and receivers": time.process_time()}

    def carry(self, topic: str, batch: int, count: int = MESSAGES) -> None:
        """Print the messages a second from the first publish to the last push, and the CPU of each."""
        used, before, began = self.cpu_s(), len(self.pushes.at), time.monotonic()

        def publish(number: int) -> None:
            messages = [NewMessage(f"{number}.{place}") for place in range(batch)]
            if batch == 1:
                self.client.publish(topic, messages[0].body)
            else:
                self.client.publish_batch(topic, messages)

        with ThreadPoolExecutor(PUBLISHERS) as publishers:
            list(publishers.map(publish, range(count // batch)))
        assert wait_until(lambda: len(self.pushes.at) == before + count * SUBSCRIBERS, PATIENCE_S)
        spent = {name: seconds - used.get(name, 0.0) for name, seconds in self.cpu_s().items()}
        rate = count / (max(self.pushes.at.values()) - began)
        told = ", ".join(f"{name} {1000 * each / count:.1f}" for name, each in sorted(spent.items()) if each)
        each_ms = 1000 * sum(spent.values()) / count
        figure = f"{topic}, {batch} at once: {rate:.0f} messages/s, {each_ms:.1f} ms of CPU each"
        print(f"{figure} (goal {GOALS[batch]}/s, {load()})\n    {told}", flush=True)

    def pace(self, topic: str) -> None:
        """Print how long a push comes after its publish, at ten messages a second."""
        sent: dict[str, float] = {}
        for _ in range(PACED):
            began = time.monotonic()
            sent[self.client.publish(topic, "x").message_id] = began
            time.sleep(max(0.0, began + 0.1 - time.monotonic()))
        at = self.pushes.at
        assert wait_until(lambda: sum(message_id in sent for message_id, _ in list(at)) == PACED * SUBSCRIBERS)
        waits = [1000 * (at[key] - sent[key[0]]) for key in at if key[0] in sent]
        p50, p99 = statistics.median(waits), statistics.quantiles(waits, n=100)[98]
        print(f"publish to push at 10/s: p50 {p50:.0f} ms, p99 {p99:.0f} ms (goal p50 {WAIT_MS_GOAL} ms, {load()})")

    def idle(self, seconds: float) -> None:
        """Print what the stack uses while nothing happens, once what it had to do is done: two sweeps are in it."""
        time.sleep(min(CALM_S, seconds))
        before = sum(cpu_s(self.root).values())
        time.sleep(seconds)
        used = 100 * (sum(cpu_s(self.root).values()) - before) / seconds
        print(f"idle: {used:.1f} % of a core (goal below {IDLE_GOAL} %)")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.local_stack")
    parser.add_argument("--messages", type=int, default=MESSAGES, help="of each figure (default: %(default)s)")
    parser.add_argument("--idle", type=float, default=IDLE_S, metavar="SECONDS", help="(default: %(default)s)")
    asked = parser.parse_args()
    pushes = Pushes()
    with pushes.received() as url, tempfile.TemporaryDirectory() as folder:
        stack = start_stack(Path(folder) / "data")
        try:
            with Client(stack.url) as client:
                bench = Bench(stack.process.pid, client, pushes)
                for topic, retry in RETRIES.items():
                    bench.subscribe(topic, url, retry)
                    bench.carry(topic, BATCH, asked.messages)
                    bench.carry(topic, 1, asked.messages)
                bench.pace("unordered")
                bench.idle(asked.idle)
        finally:
            stack.stop()


if __name__ == "__main__":
    main()
