"""A pytest that has collected everything and waits: each task runs in a fork of it and imports nothing."""

import json
import os
import resource
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import boto3
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings
from moto import mock_aws

ROOT_FLAGS = ("-q", "-s", "-p", "no:cacheprovider", "--timeout=0", "--disable-warnings", "--tb=native")
"""Nobody looks at tracebacks, and pytest's own take longer than most tests: they search the source of every frame."""
SUITE = (
    "tests/unit",
    "tests/integration",
    "tests/scenarios/test_scenarios_in_memory.py",
    "tests/simulation/test_bugs_found.py",
    "layers",
    *(f"--ignore=tests/unit/{name}" for name in ("cli", "local", "test_topic_index.py", "test_routing_key.py")),
    "--ignore-glob=*sql92*",
)
"""The tests that reach what is mutated; those of other parts of the project are left out."""
MEMORY_BYTES_MAX = 6 << 30
SILENT_S = 300.0
"""A fork that is silent for longer waits in vain and is killed. :func:`within` ends a fork that loops."""

Tell = Callable[[Mapping[str, Any]], None]
Work = Callable[[Mapping[str, pytest.Item], Tell], None]


@dataclass
class Told:
    """What a fork said: all its words in order; *hung* if it was killed before its last one."""

    words: list[Mapping[str, Any]] = field(default_factory=list)
    hung: bool = False

    @property
    def last(self) -> Mapping[str, Any]:
        return self.words[-1] if self.words else {}

    @property
    def result(self) -> Mapping[str, Any]:
        """Return the last word about the work, or the fault that ended it."""
        return next((word for word in reversed(self.words) if word.keys() != {"done"}), {})


class Warm:
    """The plugin: instead of the tests it runs *script*, which asks for forks through :meth:`run`."""

    def __init__(self, script: Callable[["Warm"], None]) -> None:
        self._script = script
        self.items: dict[str, pytest.Item] = {}
        self.failed = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        _meet_aws()
        self._script(self)
        return True

    def run(self, works: Iterable[tuple[Any, Work]], jobs: int) -> Iterator[tuple[Any, Told]]:
        """Do each of *works* in a fork, *jobs* at a time; yield its name and what it told, as they end."""
        waiting, busy = iter(works), selectors.DefaultSelector()
        slots = list(range(jobs))
        while True:
            while slots and (work := next(waiting, None)) is not None:
                fork = _Fork(work[0], slots.pop())
                fork.begin(work[1], self.items)
                busy.register(fork.read, selectors.EVENT_READ, fork)
            if not busy.get_map():
                return
            for key, _ in busy.select(timeout=0.5):
                key.data.listen()
            for fork in [key.data for key in list(busy.get_map().values())]:
                if fork.ended():
                    busy.unregister(fork.read)
                    fork.bury()
                    slots.append(fork.slot)
                    yield fork.name, fork.told


def _meet_aws() -> None:
    """Import what moto and boto3 import when they are first used; a fork should not have to."""
    with mock_aws():
        for service in ("dynamodb", "sqs", "stepfunctions", "s3", "lambda"):
            boto3.client(service)
        boto3.client("dynamodb").list_tables()
        boto3.client("sqs").list_queues()


class _Fork:
    def __init__(self, name: Any, slot: int) -> None:
        self.name, self.slot = name, slot
        self.told = Told()
        self.read = self.pid = -1
        self._buffer = b""
        self._closed = False
        self._until = time.monotonic() + SILENT_S

    def begin(self, work: Work, items: Mapping[str, pytest.Item]) -> None:
        self.read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.read)
            _child(work, items, write, self.slot)
        os.close(write)

    def listen(self) -> None:
        content = os.read(self.read, 1 << 16)
        self._closed = not content
        self.told.hung = self._closed and not self.told.last.get("done")
        *lines, self._buffer = (self._buffer + content).split(b"\n")
        for line in lines:
            self.told.words.append(json.loads(line))
            self._until = time.monotonic() + SILENT_S

    def ended(self) -> bool:
        if not self._closed and time.monotonic() >= self._until:
            self.told.hung = True
            os.kill(self.pid, signal.SIGKILL)
            self._closed = True
        return self._closed

    def bury(self) -> None:
        os.close(self.read)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _child(work: Work, items: Mapping[str, pytest.Item], write: int, slot: int) -> None:
    """Do *work* and end this process, whatever threads there are."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[slot % len(cores)]})
    out: IO[bytes] = os.fdopen(write, "wb", buffering=0)

    def tell(word: Mapping[str, Any]) -> None:
        out.write(json.dumps(word).encode() + b"\n")

    try:
        work(items, tell)
        tell({"done": True})
    except BaseException as fault:  # noqa: BLE001 whatever it was, the parent has to know
        tell({"fault": f"{type(fault).__name__}: {fault}", "done": True})
    finally:
        os._exit(0)


def within(seconds: float) -> None:
    """Let this process be killed when it has used so many seconds of a core from now on."""
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def passes(item: pytest.Item) -> bool:
    """Run one test with its fixtures and say whether all of it went well."""
    return failure(item) is None


def failure(item: pytest.Item) -> str | None:
    """Run one test with its fixtures and return the last line of what failed, if anything did."""
    failed = [report for report in runtestprotocol(item, log=False, nextitem=None) if report.failed]
    return str(failed[0].longrepr).rstrip().splitlines()[-1] if failed else None


def with_warm_pytest(script: Callable[["Warm"], None], suite: Sequence[str] = SUITE) -> int:
    """Collect *suite* and run *script* over it; return pytest's exit code."""
    settings.register_profile("mutation", database=None, derandomize=True, deadline=None)
    settings.load_profile("mutation")
    return int(pytest.main([*ROOT_FLAGS, *suite], plugins=[Warm(script)]))
