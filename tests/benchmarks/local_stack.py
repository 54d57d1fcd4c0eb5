"""What the local stack carries: ``python -m tests.benchmarks.local_stack``.

Three receivers that answer at once, four publishers: messages a second from the first publish to the last push, singly
and in batches of 16, with subscribers that keep no order and with such that do; how long a push comes after its publish
at ten messages a second; and the CPU that a message costs by process, whatever else the machine does.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tagcast_client import Client, NewMessage

from tests.running_stack import start_stack, wait_until

SUBSCRIBERS, PUBLISHERS, BATCH, PACED = 3, 4, 16, 50
MESSAGES = 480
CALM_S, IDLE_S, PATIENCE_S = 15.0, 10.0, 300.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
DECAY, BACKOFF = {"strategy": "EXPONENTIAL_DECAY_RETRY"}, {"strategy": "BACKOFF_RETRY"}


@dataclass
class Pushes:
    """When each message first came to each subscriber."""

    at: dict[tuple[str, str], float] = field(default_factory=dict)

    def server(self) -> ThreadingHTTPServer:
        """An endpoint whose paths are the subscribers."""
        at = self.at

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                at.setdefault((body["message_id"], self.path), time.monotonic())
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


def cpu_s(root: int) -> Mapping[str, float]:
    """CPU seconds of *root* and of all its descendants by now, by what they are."""
    parents: dict[int, int] = {}
    used: dict[int, tuple[str, float]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:  # It ended meanwhile.
            continue
        parents[int(entry.name)] = int(fields[1])
        used[int(entry.name)] = " ".join(words[1:3]), (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    mine = {root}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    found: dict[str, float] = defaultdict(float)
    for name, seconds in (used[pid] for pid in mine & used.keys()):
        found[name] += seconds
    return found


@dataclass(frozen=True)
class Bench:
    """A running stack, its client, and what came to its subscribers."""

    root: int
    client: Client
    pushes: Pushes

    def subscribe(self, topic: str, url: str, retry: Mapping[str, str]) -> None:
        """Make a topic with its subscribers, and let a first message warm everything up."""
        self.client.put_topic(topic)
        for number in range(SUBSCRIBERS):
            self.client.put_subscription(topic, f"s{number}", f"{url}/{topic}{number}", retry=retry)
        before = len(self.pushes.at)
        self.client.publish(topic, "warm")
        assert wait_until(lambda: len(self.pushes.at) == before + SUBSCRIBERS)

    def carry(self, topic: str, batch: int) -> None:
        """Print the messages a second from the first publish to the last push, and the CPU of each."""
        used, before, began = cpu_s(self.root), len(self.pushes.at), time.monotonic()

        def publish(number: int) -> None:
            messages = [NewMessage(f"{number}.{place}") for place in range(batch)]
            if batch == 1:
                self.client.publish(topic, messages[0].body)
            else:
                self.client.publish_batch(topic, messages)

        with ThreadPoolExecutor(PUBLISHERS) as publishers:
            list(publishers.map(publish, range(MESSAGES // batch)))
        assert wait_until(lambda: len(self.pushes.at) == before + MESSAGES * SUBSCRIBERS, PATIENCE_S)
        spent = {name: seconds - used.get(name, 0.0) for name, seconds in cpu_s(self.root).items()}
        rate = MESSAGES / (max(self.pushes.at.values()) - began)
        told = ", ".join(f"{name} {1000 * each / MESSAGES:.1f}" for name, each in spent.items())
        each_ms = 1000 * sum(spent.values()) / MESSAGES
        print(f"{topic}, {batch} at once: {rate:.0f} messages/s, {each_ms:.1f} ms of CPU each")
        print(f"    {told}")

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
        print(f"publish to push at 10/s: p50 {statistics.median(waits):.0f} ms, at most {max(waits):.0f} ms")

    def idle(self) -> None:
        """Print what the stack uses while nothing happens, once what it had to do is done."""
        time.sleep(CALM_S)
        before = sum(cpu_s(self.root).values())
        time.sleep(IDLE_S)
        print(f"idle: {100 * (sum(cpu_s(self.root).values()) - before) / IDLE_S:.1f} % of a core")


def main() -> None:
    """Print the figures."""
    pushes = Pushes()
    server = pushes.server()
    with tempfile.TemporaryDirectory() as folder:
        stack = start_stack(Path(folder) / "data")
        try:
            with Client(stack.url) as client:
                bench = Bench(stack.process.pid, client, pushes)
                for topic, retry in (("unordered", DECAY), ("ordered", BACKOFF)):
                    bench.subscribe(topic, f"http://127.0.0.1:{server.server_address[1]}", retry)
                    bench.carry(topic, BATCH)
                    bench.carry(topic, 1)
                bench.pace("unordered")
                bench.idle()
        finally:
            stack.stop()
            server.shutdown()


if __name__ == "__main__":
    main()
