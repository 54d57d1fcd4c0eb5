"""Kills real processes with SIGKILL at random moments while messages are published, then counts what came of it.

``python -m tests.e2e.killing --what workers --seconds 60`` kills workers of the functions, one at a time;
``--what stack`` kills the whole service with its engine and starts it again. A member of a group pulls and acknowledges
meanwhile, and before each kill a secret is written. With ``--letters`` a subscription discards what it gets into a
dead-letter topic, too. ``--audit`` proves the same from the archive, by the Spark job.
"""

import argparse
import json
import math
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.http_server import Handler, serving
from tests.running_stack import RunningStack, start_stack, wait_until

TOPIC = "orders"
GROUP = "group"
SECRET = "killing"
LETTERS = "letters"
"""A topic of dead letters, and its subscription, which is told what another one refuses."""
WANTED: dict[str, Callable[[list[str]], bool]] = {
    "everything": lambda tags: True,
    "apples": lambda tags: "apple" in tags,
    "flaky": lambda tags: True,
    GROUP: lambda tags: True,
}
"""Who wants which messages: the oracle, written without any code of the service."""
WANTED_LETTERS: dict[str, Callable[[list[str]], bool]] = {LETTERS: lambda tags: "pear" in tags}
FLAKINESS = 0.05
TIME_SCALE = "10"
"""Waits are ten times shorter than life."""
KILL_PAUSE_S = (0.2, 1.2)
STACK_PAUSE_S = (2.0, 6.0)
SETTLE_S = 180.0


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
    first_at: dict[tuple[str, str], float] = field(default_factory=dict)
    url: str = ""

    def take(self, subscription: str, message_id: str) -> None:
        self.received[subscription].append(message_id)
        self.first_at.setdefault((subscription, message_id), time.monotonic())

    @contextmanager
    def listening(self) -> Iterator[None]:
        receiver, lock = self, threading.Lock()

        class Serving(Handler):
            protocol_version = "HTTP/1.1"

            def serve(self) -> None:
                push = json.loads(self.body())
                with lock:
                    refused = push["subscription"] == "flaky" and receiver.dice.random() < FLAKINESS
                    refused |= push["subscription"] == "refuses"
                    if not refused:
                        original = push["properties"].get("dead_letter_of", push["message_id"])
                        receiver.take(push["subscription"], original)
                self.answer(500 if refused else 200)

        with serving(Serving) as address:
            self.url = f"{address}/"
            yield


def call(method: str, url: str, body: object = None, **headers: str) -> dict[str, Any]:
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, sent, {"content-type": "application/json", **headers}, method=method)
    with urllib.request.urlopen(request, timeout=15) as answer:
        found: dict[str, Any] = json.loads(answer.read() or b"{}")
        return found


@dataclass
class Outcome:
    """What was acknowledged, and what of it was not as promised."""

    acknowledged: int
    refused: int
    kills: dict[str, int]
    pairs: int = 0
    latest_s: float = 0.0
    forgotten: list[str] = field(default_factory=list)
    unarchived: bool = False
    lost: list[tuple[str, str]] = field(default_factory=list)
    unexpected: list[tuple[str, str]] = field(default_factory=list)
    duplicated: int = 0
    out_of_order: list[tuple[str, str]] = field(default_factory=list)
    violations: int | None = None

    def table(self, took_s: float) -> Table:
        table = Table(title=f"{sum(self.kills.values())} processes killed", title_justify="left", show_header=False)
        told = " ".join(f"{name} {number}" for name, number in sorted(self.kills.items()))
        rows = (
            ("killed", told),
            ("requests refused meanwhile", self.refused),
            ("messages acknowledged", self.acknowledged),
            ("deliveries", self.pairs),
            ("lost", len(self.lost)),
            ("acknowledgements and secrets forgotten", len(self.forgotten)),
            ("the archive lacks something", "yes" if self.unarchived else "no"),
            ("latest after a restart", f"{self.latest_s:.1f} s"),
            ("unexpected", len(self.unexpected)),
            ("duplicated", self.duplicated),
            ("out of order", len(self.out_of_order)),
            ("violations found by the audit", "not asked" if self.violations is None else self.violations),
            ("settled after", f"{took_s:.1f} s"),
        )
        for name, value in rows:
            table.add_row(name, str(value))
        return table


@dataclass
class Experiment:
    """A stack, its receivers, a producer that never gives up, and somebody who kills."""

    folder: Path
    dice: random.Random
    letters: bool = False
    stack: RunningStack = field(init=False)
    receiver: Receiver = field(init=False)
    sent: list[Sent] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    restarts: list[tuple[int, float]] = field(default_factory=list)
    """How many messages had been acknowledged at each kill of the whole stack, and when it ran again."""
    acknowledged: dict[str, float] = field(default_factory=dict)
    """When a member of the group was told that its acknowledgement was taken."""
    forgotten: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    refusals: int = 0

    @property
    def wanted_letters(self) -> dict[str, Callable[[list[str]], bool]]:
        return WANTED_LETTERS if self.letters else {}

    def __post_init__(self) -> None:
        self.receiver = Receiver(random.Random(self.dice.random()))

    def begin(self) -> None:
        self.stack = start_stack(self.folder, "--time-scale", TIME_SCALE)
        call("PUT", f"{self.stack.url}/topics/{TOPIC}", {})
        if self.letters:
            self._subscribe_letters()
        for name in WANTED:
            body: dict[str, Any] = {
                "endpoint": {"protocol": "http", "url": self.receiver.url},
                "retry": {"strategy": "BACKOFF_RETRY", "max_retries": 100, "interval_seconds": 1},
                "timeout_seconds": 2,
            }
            if name == "apples":
                body["filter"] = {"kind": "tags", "tags": ["apple"]}
            if name == GROUP:
                body = {"endpoint": {"protocol": "pull"}, "ordered": True}
            call("PUT", f"{self.stack.url}/topics/{TOPIC}/subscriptions/{name}", body)
        self.stack.owner("secretsmanager").create_secret(Name=SECRET, SecretString="0")

    def _subscribe_letters(self) -> None:
        """Let a subscription that refuses everything have its dead letters in a topic of their own."""
        call("PUT", f"{self.stack.url}/topics/{LETTERS}", {})
        endpoint = {"protocol": "http", "url": self.receiver.url}
        call("PUT", f"{self.stack.url}/topics/{LETTERS}/subscriptions/{LETTERS}", {"endpoint": endpoint})
        refuses = {
            "endpoint": endpoint,
            "filter": {"kind": "tags", "tags": ["pear"]},
            "retry": {"strategy": "INDEPENDENT_RETRY", "max_retries": 1},
            "dead_letter_topic": LETTERS,
        }
        call("PUT", f"{self.stack.url}/topics/{TOPIC}/subscriptions/refuses", refuses)

    def pull(self) -> None:
        """Pull and acknowledge as a member of the group, until the end; note what comes after its acknowledgement."""
        group = f"{self.stack.url}/topics/{TOPIC}/subscriptions/{GROUP}"
        while not self.ended.is_set():
            try:
                asked = {"wait_seconds": 1, "visibility_timeout_seconds": 30}
                pulled = call("POST", f"{group}/pull", asked)["messages"]
                for each in pulled:
                    self.receiver.take(GROUP, each["message_id"])
                    if each["message_id"] in self.acknowledged:
                        self.forgotten.append(f"the acknowledgement of {each['message_id']}")
                if pulled:
                    call("POST", f"{group}/ack", {"receipt_handles": [each["receipt_handle"] for each in pulled]})
                    self.acknowledged |= dict.fromkeys((each["message_id"] for each in pulled), time.monotonic())
            except (urllib.error.URLError, OSError, ValueError):
                time.sleep(0.05)

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

    def kill_workers(self, until: float) -> None:
        while time.monotonic() < until:
            time.sleep(self.dice.uniform(*KILL_PAUSE_S))
            alive = self.stack.workers()
            if alive:
                pid, name = self.dice.choice(list(alive.items()))
                os.kill(pid, signal.SIGKILL)
                self.kills[name.removeprefix("tagcast-")] += 1

    def kill_stack(self, until: float) -> None:
        while time.monotonic() + STACK_PAUSE_S[0] < until:
            time.sleep(self.dice.uniform(*STACK_PAUSE_S))
            port = self.stack.url.rpartition(":")[2]
            pids = list(self.stack.workers())
            secret = str(self.dice.random())
            self.stack.owner("secretsmanager").put_secret_value(SecretId=SECRET, SecretString=secret)
            for pid in (self.stack.process.pid, int(self.stack.where["engine_pid"]), *pids):
                os.kill(pid, signal.SIGKILL)
            self.stack.process.wait()
            sent = len(self.sent)
            self.kills["the whole stack"] += 1
            self.stack = start_stack(self.folder, "--port", port, "--time-scale", TIME_SCALE)
            self.restarts.append((sent, time.monotonic()))
            if self.stack.owner("secretsmanager").get_secret_value(SecretId=SECRET)["SecretString"] != secret:
                self.forgotten.append("a secret")

    def settle(self) -> float:
        """Wait until nothing is pending; return how long it took, in seconds."""
        began = time.monotonic()
        open_ones = [each.message_id for each in self.sent]
        while open_ones and time.monotonic() - began < SETTLE_S:
            open_ones = [each for each in open_ones if not self._is_over(each)]
            if open_ones:
                time.sleep(0.2)
        wanted = self.wanted_letters.values()
        letters = {each.message_id for each in self.sent if any(wants(each.tags) for wants in wanted)}
        wait_until(lambda: letters <= {*self.receiver.received[LETTERS]}, SETTLE_S - (time.monotonic() - began))
        return time.monotonic() - began

    def _is_over(self, message_id: str) -> bool:
        try:
            state = call("GET", f"{self.stack.url}/topics/{TOPIC}/messages/{message_id}")["state"]
        except urllib.error.HTTPError as refused:
            return refused.code == 404
        except OSError:
            return False
        return state in ("deleted", "unmatched")

    def latest_s(self) -> float:
        """How long after a restart the last of what was acknowledged before came to who refuses nothing."""
        return max(
            (
                self.receiver.first_at.get(("everything", each.message_id), math.inf) - ready_at
                for before, ready_at in self.restarts
                for each in self.sent[:before]
            ),
            default=0.0,
        )

    def count(self) -> Outcome:
        outcome = Outcome(len(self.sent), self.refusals, dict(self.kills), latest_s=self.latest_s())
        outcome.forgotten = self.forgotten
        wanted = {each.message_id: each for each in self.sent}
        for name, wants in (WANTED | self.wanted_letters).items():
            received = self.receiver.received[name]
            times = Counter(received)
            outcome.pairs += sum(wants(each.tags) for each in self.sent)
            for each in self.sent:
                if wants(each.tags) and not times[each.message_id]:
                    outcome.lost.append((name, each.message_id))
            outcome.unexpected += [(name, each) for each in times if each in wanted and not wants(wanted[each].tags)]
            outcome.duplicated += sum(number - 1 for number in times.values())
            if name in self.wanted_letters:  # Their topic has an order of its own.
                continue
            firsts = list(dict.fromkeys(each for each in received if each in wanted))
            highest = ""
            for message_id in firsts:
                if message_id < highest:
                    outcome.out_of_order.append((name, message_id))
                highest = max(highest, message_id)
        return outcome

    def audit(self) -> int:
        if not wait_until(lambda: self.stack.has_archived(TOPIC, len(self.sent)), SETTLE_S):
            raise TimeoutError("the archive was not told of everything")
        command = [sys.executable, "-m", "tagcast_cli.app", "--json", "audit", "--no-open", "--data", str(self.folder)]
        printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return int(json.loads(printed.splitlines()[-1])["violations"])


def run(
    what: str, seconds: float, seed: int, folder: Path, *, letters: bool = False, audit: bool = False
) -> tuple[Outcome, float]:
    experiment = Experiment(folder, random.Random(seed), letters)
    with ExitStack() as ends:
        ends.enter_context(experiment.receiver.listening())
        experiment.begin()
        ends.callback(lambda: experiment.stack.process.poll() is None and experiment.stack.stop())
        until = time.monotonic() + seconds
        member = threading.Thread(target=experiment.pull, daemon=True)
        member.start()
        producer = threading.Thread(target=experiment.publish, args=(until,), daemon=True)
        producer.start()
        (experiment.kill_workers if what == "workers" else experiment.kill_stack)(until)
        producer.join()
        took_s = experiment.settle()
        experiment.ended.set()
        member.join()
        outcome = experiment.count()
        outcome.unarchived = not wait_until(
            lambda: experiment.stack.has_archived(TOPIC, len(experiment.sent)), SETTLE_S
        )
        if audit:
            outcome.violations = experiment.audit()
        return outcome, took_s


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.killing", description=__doc__)
    parser.add_argument("--what", choices=("workers", "stack"), default="workers")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--letters", action="store_true")
    parser.add_argument("--audit", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        also = {"letters": options.letters, "audit": options.audit}
        outcome, took_s = run(options.what, options.seconds, options.seed, Path(folder) / "data", **also)
    Console().print(outcome.table(took_s))
    for name, found in (("lost", outcome.lost), ("unexpected", outcome.unexpected), ("order", outcome.out_of_order)):
        for each in found[:20]:
            print(name, *each)
    for what in outcome.forgotten[:20]:
        print("forgotten", what)
    broken = outcome.lost or outcome.unexpected or outcome.out_of_order or outcome.forgotten or outcome.unarchived
    return int(bool(broken or outcome.violations))


if __name__ == "__main__":
    sys.exit(main())
