"""Kills real processes with SIGKILL at random moments while messages are published, then counts what came of it.

``python -m tests.e2e.killing --what workers --seconds 60`` kills workers of the functions, one at a time;
``--what stack`` kills the whole service with its engine and starts it again, from its last snapshot. A snapshot is
taken every few seconds: what was acknowledged after the last one is as gone as a disk that was never written, and is
counted apart. ``--audit`` proves the same from the archive, by the Spark job (workers only: an archive remembers what
tables that were set back have forgotten).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.running_stack import RunningStack, start_stack, wait_until

TOPIC = "orders"
WANTED: dict[str, Callable[[list[str]], bool]] = {
    "everything": lambda tags: True,
    "apples": lambda tags: "apple" in tags,
    "flaky": lambda tags: True,
}
"""Who wants which messages: the oracle, written without any code of the service."""
FLAKINESS = 0.05
TIME_SCALE = "10"
"""Waits are ten times shorter than life."""
KILL_PAUSE_S = (0.2, 1.2)
STACK_PAUSE_S = (6.0, 10.0)
SETTLE_S = 180.0
SAVING_S = 2.0
"""A snapshot takes a while, service by service."""


@dataclass(frozen=True)
class Sent:
    """A message that the service acknowledged."""

    message_id: str
    tags: list[str]
    at: float


@dataclass
class Receiver:
    """An HTTP endpoint for every subscription; the flaky one refuses some pushes."""

    dice: random.Random
    received: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        receiver, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                push = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    refused = push["subscription"] == "flaky" and receiver.dice.random() < FLAKINESS
                    if not refused:
                        receiver.received[push["subscription"]].append(push["message_id"])
                self.send_response(500 if refused else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/"


def call(method: str, url: str, body: object = None, **headers: str) -> dict[str, Any]:
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, sent, {"content-type": "application/json", **headers}, method=method)
    with urllib.request.urlopen(request, timeout=15) as answer:
        found: dict[str, Any] = json.loads(answer.read() or b"{}")
        return found


@dataclass
class Experiment:
    """A stack, its receivers, a producer that never gives up, and somebody who kills."""

    folder: Path
    dice: random.Random
    stack: RunningStack = field(init=False)
    receiver: Receiver = field(init=False)
    sent: list[Sent] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    lost_spans: list[tuple[float, float]] = field(default_factory=list)
    refusals: int = 0

    def begin(self) -> None:
        self.receiver = Receiver(random.Random(self.dice.random()))
        self.stack = start_stack(self.folder, "--time-scale", TIME_SCALE)
        call("PUT", f"{self.stack.url}/topics/{TOPIC}", {})
        for name in WANTED:
            body: dict[str, Any] = {
                "endpoint": {"protocol": "http", "url": self.receiver.url},
                "retry": {"strategy": "BACKOFF_RETRY", "max_retries": 100, "interval_seconds": 1},
                "timeout_seconds": 2,
            }
            if name == "apples":
                body["filter"] = {"kind": "tags", "tags": ["apple"]}
            call("PUT", f"{self.stack.url}/topics/{TOPIC}/subscriptions/{name}", body)

    @property
    def saved_at(self) -> float:
        """When the last snapshot was written; 0 before the first."""
        state = self.folder / "engine" / "state" / "dynamodb.json"
        return state.stat().st_mtime if state.exists() else 0.0

    def wait_for_a_snapshot(self) -> None:
        asked_at = time.time()
        while self.saved_at < asked_at + SAVING_S:
            time.sleep(0.1)

    def publish(self, until: float) -> None:
        """Publish one message after the other; each with an Idempotency-Key, again until it is acknowledged."""
        number = 0
        while time.monotonic() < until:
            number += 1
            tags = self.dice.choice(([], ["apple"], ["pear"], ["apple", "pear"]))
            while True:
                try:
                    answer = call(
                        "POST",
                        f"{self.stack.url}/topics/{TOPIC}/messages",
                        {"body": f"message {number}", "tags": tags},
                        **{"Idempotency-Key": f"message-{number}"},
                    )
                except (urllib.error.URLError, OSError, ValueError):
                    self.refusals += 1
                    time.sleep(0.05)
                    continue
                self.sent.append(Sent(answer["message_id"], tags, time.time()))
                break
            time.sleep(0.005)

    def workers(self) -> list[tuple[int, str]]:
        """Return process id and function of the running workers."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if f"\nPPid:\t{self.stack.process.pid}\n" not in (entry / "status").read_text():
                    continue
                environment = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            names = [
                each.partition(b"=")[2].decode() for each in environment if each.startswith(b"AWS_LAMBDA_FUNCTION_NAME")
            ]
            found += [(int(entry.name), name) for name in names]
        return found

    def kill_workers(self, until: float) -> None:
        while time.monotonic() < until:
            time.sleep(self.dice.uniform(*KILL_PAUSE_S))
            alive = self.workers()
            if alive:
                pid, name = self.dice.choice(alive)
                os.kill(pid, signal.SIGKILL)
                self.kills[name.removeprefix("tagcast-")] += 1

    def kill_stack(self, until: float) -> None:
        while time.monotonic() + STACK_PAUSE_S[0] < until:
            time.sleep(self.dice.uniform(*STACK_PAUSE_S))
            port = self.stack.url.rpartition(":")[2]
            pids = [pid for pid, _ in self.workers()]
            killed_at = time.time()
            for pid in (self.stack.process.pid, int(self.stack.where["engine_pid"]), *pids):
                os.kill(pid, signal.SIGKILL)
            self.stack.process.wait()
            self.lost_spans.append((self.saved_at, killed_at))
            self.kills["the whole stack"] += 1
            self.stack = start_stack(self.folder, "--port", port, "--time-scale", TIME_SCALE)

    def settle(self) -> float:
        """Wait until nobody is owed anything; return how long it took, in seconds."""
        began = time.monotonic()
        open_ones = [each.message_id for each in self.sent]
        while open_ones and time.monotonic() - began < SETTLE_S:
            open_ones = [each for each in open_ones if not self._is_over(each)]
            if open_ones:
                time.sleep(0.2)
        return time.monotonic() - began

    def _is_over(self, message_id: str) -> bool:
        try:
            state = call("GET", f"{self.stack.url}/topics/{TOPIC}/messages/{message_id}")["state"]
        except urllib.error.HTTPError as refused:
            return refused.code == 404
        except OSError:
            return False
        return state in ("deleted", "discarded")

    def unprotected(self, sent: Sent) -> bool:
        """Say whether the message was acknowledged after the last snapshot before a kill of the whole stack."""
        return any(saved_at - SAVING_S <= sent.at <= killed_at for saved_at, killed_at in self.lost_spans)

    def count(self) -> Outcome:
        """Compare what was acknowledged with what was received."""
        outcome = Outcome(len(self.sent), self.refusals, dict(self.kills))
        wanted = {each.message_id: each for each in self.sent}
        for name, wants in WANTED.items():
            received = self.receiver.received[name]
            times = Counter(received)
            outcome.pairs += sum(wants(each.tags) for each in self.sent)
            for each in self.sent:
                if wants(each.tags) and not times[each.message_id]:
                    if self.unprotected(each):
                        outcome.after_snapshot += 1
                    else:
                        outcome.lost.append((name, each.message_id))
            outcome.unexpected += [(name, each) for each in times if each in wanted and not wants(wanted[each].tags)]
            outcome.duplicated += sum(number - 1 for number in times.values())
            firsts = list(dict.fromkeys(each for each in received if each in wanted))
            highest = ""
            for message_id in firsts:
                if message_id < highest:
                    outcome.out_of_order.append((name, message_id))
                highest = max(highest, message_id)
        return outcome

    def audit(self) -> int:
        """Return how many violations the audit of the archive finds."""
        if not wait_until(lambda: self.stack.has_archived(TOPIC, len(self.sent)), SETTLE_S):
            raise TimeoutError("the archive was not told of everything")
        command = [sys.executable, "-m", "local.cli.app", "--json", "audit", "--no-open", "--data", str(self.folder)]
        printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return int(json.loads(printed.splitlines()[-1])["violations"])


@dataclass
class Outcome:
    """What was acknowledged, and what of it was not as promised."""

    acknowledged: int
    refused: int
    kills: dict[str, int]
    pairs: int = 0
    after_snapshot: int = 0
    lost: list[tuple[str, str]] = field(default_factory=list)
    unexpected: list[tuple[str, str]] = field(default_factory=list)
    duplicated: int = 0
    out_of_order: list[tuple[str, str]] = field(default_factory=list)
    violations: int | None = None

    def table(self, took_s: float) -> Table:
        """Return the outcome as people read it."""
        table = Table(title=f"{sum(self.kills.values())} processes killed", title_justify="left", show_header=False)
        told = " ".join(f"{name} {number}" for name, number in sorted(self.kills.items()))
        rows = (
            ("killed", told),
            ("requests refused meanwhile", self.refused),
            ("messages acknowledged", self.acknowledged),
            ("deliveries owed", self.pairs),
            ("lost", len(self.lost)),
            ("acknowledged after the last snapshot, and gone with it", self.after_snapshot),
            ("unexpected", len(self.unexpected)),
            ("duplicated", self.duplicated),
            ("out of order", len(self.out_of_order)),
            ("violations found by the audit", "not asked" if self.violations is None else self.violations),
            ("settled after", f"{took_s:.1f} s"),
        )
        for name, value in rows:
            table.add_row(name, str(value))
        return table


def run(what: str, seconds: float, seed: int, folder: Path, *, audit: bool = False) -> tuple[Outcome, float]:
    """Publish and kill for so many seconds, let everything settle, count."""
    experiment = Experiment(folder, random.Random(seed))
    experiment.begin()
    try:
        if what == "stack":
            experiment.wait_for_a_snapshot()
        until = time.monotonic() + seconds
        producer = threading.Thread(target=experiment.publish, args=(until,), daemon=True)
        producer.start()
        (experiment.kill_workers if what == "workers" else experiment.kill_stack)(until)
        producer.join()
        took_s = experiment.settle()
        outcome = experiment.count()
        if audit:
            outcome.violations = experiment.audit()
        return outcome, took_s
    finally:
        experiment.receiver.server.shutdown()
        if experiment.stack.process.poll() is None:
            experiment.stack.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.killing", description=__doc__)
    parser.add_argument("--what", choices=("workers", "stack"), default="workers")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--audit", action="store_true")
    options = parser.parse_args()
    if options.audit and options.what == "stack":
        parser.error("--audit is for --what workers")
    with tempfile.TemporaryDirectory() as folder:
        outcome, took_s = run(options.what, options.seconds, options.seed, Path(folder) / "data", audit=options.audit)
    Console().print(outcome.table(took_s))
    for name, found in (("lost", outcome.lost), ("unexpected", outcome.unexpected), ("order", outcome.out_of_order)):
        for each in found[:20]:
            print(name, *each)
    return int(bool(outcome.lost or outcome.unexpected or outcome.out_of_order or outcome.violations))


if __name__ == "__main__":
    sys.exit(main())
