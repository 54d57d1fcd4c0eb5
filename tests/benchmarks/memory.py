"""Whether memory stays flat under load: ``python -m tests.benchmarks.memory --minutes 20``.

Messages are published at a steady rate, with a pause in every minute, to topics with subscribers that take everything,
a group that pulls, and a subscriber that fails. Every half minute the memory of the stack is read: of each kind of
process what it has in memory (RSS), and of all what they have together, pages that several share counted once (PSS).
Rows of delivered messages stay for days, so the engine may grow by a packed row for each message, and by nothing else.
"""

import argparse
import re
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx

from tests.benchmarks.receivers import Receiver, receivers
from tests.running_stack import RunningStack, start_stack

TOPICS, PUBLISHERS, RATE = 4, 4, 40
WARM_UP_MINUTES, LOOK_S, PAUSE_S = 6.0, 30.0, 10.0
"""What a queue was sent in the last five minutes is remembered, so that memory grows for as long."""
KIB, MIB = 1024, 1024 * 1024
MESSAGE_BYTES_MAX, ROOM_BYTES, MORE_PROCESSES_MAX = 2 * KIB, 16 * MIB, 2
"""What the engine may grow by: for each message, and besides; and how many more processes there may be."""
MESSAGES_MIN = 2_000
"""Below that nothing is proved: what is to be noticed is some kilobytes for each."""
ENGINE = "-m local.engine.engine_process"
BODY = {"body": "x" * 1_000, "tags": ["fruit"]}
OK, FAILED = b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"


class Endpoint(Receiver):
    """Takes what comes, but for what comes to a path that fails."""

    def answer(self, head: bytes) -> tuple[bytes, float]:
        return (FAILED if b"/fails" in head.split(b"\r\n", 1)[0] else OK), 0.0


@dataclass(frozen=True)
class Held:
    """The memory of a process tree: RSS by what its processes are, and the PSS of all, in bytes."""

    resident: Mapping[str, int]
    shared_once: int
    processes: int

    @classmethod
    def by(cls, stack: RunningStack) -> Self:
        """Look at the processes of *stack*."""
        resident: dict[str, int] = defaultdict(int)
        family = stack.processes()
        shared_once = 0
        for pid, name in family.items():
            try:
                told = Path(f"/proc/{pid}/smaps_rollup").read_text()
                resident[name] += kib(told, "Rss") * KIB
            except OSError:  # It ended meanwhile.
                continue
            shared_once += kib(told, "Pss") * KIB
        return cls(resident, shared_once, len(family))

    @property
    def engine(self) -> int:
        return self.resident[ENGINE]


def kib(told: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", told, re.MULTILINE)
    return int(found[1]) if found else 0


class Load:
    """Publishes, and pulls, until it is ended."""

    def __init__(self, url: str, endpoint: str) -> None:
        self.published = 0
        self._url, self._endpoint = url, endpoint
        self._ended = threading.Event()

    def begin(self, pool: ThreadPoolExecutor) -> None:
        with httpx.Client(base_url=self._url, timeout=60) as api:
            for number in range(TOPICS):
                api.put(f"/topics/t{number}", json={}).raise_for_status()
                for name in ("a", "b", "fails") if number == 0 else ("a", "b"):
                    subscription = {"endpoint": {"protocol": "http", "url": f"{self._endpoint}/{name}"}}
                    api.put(f"/topics/t{number}/subscriptions/{name}", json=subscription).raise_for_status()
            api.put("/topics/t1/subscriptions/group", json={"endpoint": {"protocol": "pull"}}).raise_for_status()
            member = {"member_id": "member"}
        for number in range(PUBLISHERS):
            pool.submit(self._publish, number)
        pool.submit(self._pull, member)

    def end(self) -> None:
        self._ended.set()

    def _publish(self, number: int) -> None:
        with httpx.Client(base_url=self._url, timeout=60) as api:
            while not self._ended.is_set():
                began = time.monotonic()
                if began % 60 < PAUSE_S:
                    self._ended.wait(0.5)
                    continue
                for topic in range(TOPICS):
                    api.post(f"/topics/t{topic}/messages", json=BODY).raise_for_status()
                    self.published += 1
                self._ended.wait(max(0.0, began + TOPICS * PUBLISHERS / RATE - time.monotonic()))

    def _pull(self, member: dict[str, str]) -> None:
        group = "/topics/t1/subscriptions/group"
        with httpx.Client(base_url=self._url, timeout=60) as api:
            while not self._ended.is_set():
                answer = api.post(f"{group}/pull", json={**member, "max_messages": 10, "wait_seconds": 1})
                receipts = [each["receipt_handle"] for each in answer.json().get("messages", ())]
                if receipts:
                    api.post(f"{group}/ack", json={"receipt_handles": receipts})


def told(at_s: float, published: int, held: Held) -> str:
    kinds = ", ".join(f"{name} {each // MIB}" for name, each in sorted(held.resident.items()))
    figures = f"engine {held.engine // MIB} MiB, all {held.shared_once // MIB} MiB (PSS) in {held.processes} processes"
    return f"{at_s:5.0f} s, {published:6} messages: {figures}\n        RSS: {kinds}"


@dataclass(frozen=True)
class Grown:
    """What became more from the end of the warm-up to the end."""

    warm: Held
    last: Held
    messages: int

    @property
    def engine(self) -> int:
        return self.last.engine - self.warm.engine

    @property
    def is_flat(self) -> bool:
        """Whether nothing grew but by the rows of the messages."""
        more = self.last.processes - self.warm.processes
        return self.engine <= ROOM_BYTES + MESSAGE_BYTES_MAX * self.messages and more <= MORE_PROCESSES_MAX

    def __str__(self) -> str:
        allowed = (ROOM_BYTES + MESSAGE_BYTES_MAX * self.messages) // MIB
        return (
            f"{self.messages} messages after the warm-up: "
            f"the engine grew by {self.engine / MIB:.0f} MiB (at most {allowed}), "
            f"all from {self.warm.shared_once // MIB} to {self.last.shared_once // MIB} MiB (PSS), "
            f"in {self.warm.processes} and then {self.last.processes} processes"
        )


def measure(minutes: float, warm_up_minutes: float) -> Grown:
    """Play the load, and compare the end of the warm-up with the end."""
    with (
        receivers(Endpoint) as port,
        tempfile.TemporaryDirectory() as folder,
        start_stack(Path(folder) / "data") as stack,
        ThreadPoolExecutor(PUBLISHERS + 1) as pool,
    ):
        load = Load(stack.url, f"http://127.0.0.1:{port}")
        try:
            load.begin(pool)
            began = time.monotonic()
            looks: list[tuple[float, int, Held]] = []
            while (at_s := time.monotonic() - began) < 60 * minutes:
                time.sleep(min(LOOK_S, 60 * minutes - at_s))
                looks.append((time.monotonic() - began, load.published, Held.by(stack)))
                print(told(*looks[-1]), flush=True)
        finally:
            load.end()
    warm = next(look for look in looks if look[0] >= 60 * warm_up_minutes)
    return Grown(warm[2], looks[-1][2], looks[-1][1] - warm[1])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.memory", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="how long to publish (20)")
    parser.add_argument("--warm-up", type=float, default=WARM_UP_MINUTES, metavar="MINUTES")
    asked = parser.parse_args(arguments)
    grown = measure(asked.minutes, asked.warm_up)
    print(grown)
    return 0 if grown.is_flat and grown.messages >= MESSAGES_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
