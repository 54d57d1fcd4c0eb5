"""What benchmarks share: a stack with its client, an endpoint that notes what comes, processes, tables."""

import asyncio
import os
import re
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tagcast_client import Client

from tests.benchmarks.receivers import Receiver
from tests.running_stack import RunningStack, start_stack

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FUNCTION = re.compile(r"\0AWS_LAMBDA_FUNCTION_NAME=tagcast-([^\0]*)")
TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"


def print_heading(*columns: str) -> None:
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


@contextmanager
def running_stack() -> Iterator[tuple[RunningStack, Client]]:
    """Give a stack of its own with a client, and stop it when the block ends."""
    with (
        tempfile.TemporaryDirectory() as folder,
        start_stack(Path(folder) / "data") as stack,
        Client(stack.url) as client,
    ):
        yield stack, client


@dataclass
class Pushes:
    """When each message first came to each path of an endpoint, which takes everything."""

    at: dict[tuple[str, str], float] = field(default_factory=dict)

    @contextmanager
    def received(self) -> Iterator[str]:
        """Give the URL of the endpoint, in a thread of its own, until the block ends."""
        loop = asyncio.new_event_loop()
        server = loop.run_until_complete(loop.create_server(lambda: _Noting(self), "127.0.0.1", 0, backlog=4_096))
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()
            loop.close()


class _Noting(Receiver):
    def __init__(self, pushes: Pushes) -> None:
        self._pushes = pushes

    def answer(self, head: bytes) -> tuple[bytes, float]:
        path = head.split(b" ", 2)[1].decode()
        message_id = head.partition(b"webhook-id: ")[2].split(b"\r\n", 1)[0].decode()
        self._pushes.at.setdefault((message_id, path), time.monotonic())
        return TAKEN, 0.0


def processes(root: int) -> dict[int, str]:
    """Return *root* and all its descendants, and what each is: a function, or a module."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            function = FUNCTION.search((entry / "environ").read_bytes().decode(errors="replace"))
        except OSError:  # It ended meanwhile.
            continue
        names[int(entry.name)] = function[1] if function else " ".join(words[1:3])
    mine = {root}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return {pid: names[pid] for pid in mine & names.keys()}


def cpu_s(root: int) -> Mapping[str, float]:
    """Return the CPU seconds of *root* and of all its descendants by now, by what they are."""
    found: dict[str, float] = defaultdict(float)
    for pid, name in processes(root).items():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[name] += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return found


def load() -> str:
    """Return how many processes want the cores, for people."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
