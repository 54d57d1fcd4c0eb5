"""Processes are killed at random moments; `python -m tests.e2e.killing` does it for longer."""

import json
import os
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.killing import call, run
from tests.http_server import Handler, serving
from tests.running_stack import start_stack, wait_until

SOON_S = 20.0
"""A queue entry that nobody gave back would come after six minutes."""
OWED_S = 10.0
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.mark.nightly
@pytest.mark.parametrize(("what", "kills"), [("workers", 3), ("stack", 1)])
def test_no_delivery_is_lost_or_out_of_order_when_workers_are_killed(tmp_path: Path, what: str, kills: int) -> None:
    """No dead letter is lost, either."""
    outcome, _ = run(what, 12, 3, tmp_path / "data", letters=True)

    assert sum(outcome.kills.values()) >= kills
    assert outcome.acknowledged >= 20
    assert (outcome.lost, outcome.unexpected, outcome.out_of_order) == ([], [], [])


def test_what_was_acknowledged_outlives_a_kill_of_the_whole_stack_and_comes_soon(tmp_path: Path) -> None:
    outcome, _ = run("stack", 10, 2, tmp_path / "data")

    assert outcome.kills["the whole stack"] >= 1
    assert (outcome.lost, outcome.unexpected, outcome.out_of_order) == ([], [], [])
    assert (outcome.forgotten, outcome.unarchived) == ([], False)
    assert outcome.latest_s < SOON_S


@pytest.mark.nightly
def test_what_was_being_attempted_when_all_was_killed_comes_soon_after_the_next_start(tmp_path: Path) -> None:
    """Its lane is claimed then, for the time-out of the attempt and half a minute, by a worker that is no more."""
    hangs, came = threading.Event(), dict[str, float]()

    class Serving(Handler):
        def serve(self) -> None:
            push = json.loads(self.body())
            if not hangs.is_set():
                hangs.wait(60)
                return
            came.setdefault(push["message_id"], time.monotonic())
            self.answer(200)

    with ExitStack() as ends:
        url = ends.enter_context(serving(Serving))
        stack = start_stack(tmp_path / "data")
        ends.callback(lambda: stack.process.poll() is None and stack.stop())
        call("PUT", f"{stack.url}/topics/t", {"ordering": "none"})
        for name in ("a", "b", "c"):
            call("PUT", f"{stack.url}/topics/t/subscriptions/{name}", {"endpoint": {"protocol": "http", "url": url}})
        ids = [call("POST", f"{stack.url}/topics/t/messages", {"body": "m"})["message_id"] for _ in range(4)]
        lanes = f"{stack.url}/lanes"
        assert wait_until(lambda: len(call("GET", lanes)["lanes"]) == 3), "nothing was left to its lane"
        for pid in (stack.process.pid, int(stack.where["engine_pid"]), *stack.workers()):
            os.kill(pid, signal.SIGKILL)
        stack.process.wait()
        hangs.set()
        stack = start_stack(tmp_path / "data")
        ready_at = time.monotonic()

        assert wait_until(lambda: came.keys() >= set(ids))
        assert max(came.values()) - ready_at < OWED_S
