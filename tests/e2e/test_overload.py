"""More hanging subscribers than the local stack has workers for: it stays small, and says so."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.killing import call
from tests.running_stack import RunningStack, start_stack, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]
HANGING = 60
WATCHED_S = 12.0
"""Longer than an attempt that hangs, so that a second one of each lane begins meanwhile."""


@pytest.fixture
def hurried(tmp_path: Path) -> Iterator[RunningStack]:
    """A stack of its own, twenty times faster than life."""
    stack = start_stack(tmp_path / "data", "--time-scale", "20")
    yield stack
    assert stack.stop() == 0


@pytest.fixture
def hanging() -> Iterator[str]:
    """An endpoint that takes every connection and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


def threads_of(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())


@pytest.mark.nightly
def test_hanging_subscribers_cost_one_thread_each_however_long_they_hang(hurried: RunningStack, hanging: str) -> None:
    stack = hurried
    call("PUT", f"{stack.url}/topics/h", {})
    body = {"endpoint": {"protocol": "http", "url": hanging}, "timeout_seconds": 10}
    for number in range(HANGING):
        call("PUT", f"{stack.url}/topics/h/subscriptions/s{number}", body)
    call("POST", f"{stack.url}/topics/h/messages", {"body": "x"})
    wait_until(lambda: "overloaded" in stack.output)
    assert "events wait for a worker" in stack.output
    at_first = threads_of(stack.where["engine_pid"])
    most = 0
    watched_until = time.monotonic() + WATCHED_S
    while time.monotonic() < watched_until:
        most = max(most, threads_of(stack.where["engine_pid"]), threads_of(stack.process.pid))
        time.sleep(0.5)

    assert most <= 2 * HANGING + 20, at_first
    assert call("GET", f"{stack.url}/health")["status"] == "ok"
