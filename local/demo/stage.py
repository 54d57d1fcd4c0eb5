"""Runs a temporary stack for the demo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tagcast_client import Client, Retries

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0


class StackError(Exception):
    """The stack did not start. `reason` says why, and `log` is the end of the stack's output."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.log = log


def client_for(url: str) -> Client:
    """Return a client for the API at *url*. The client does not repeat failed requests."""
    return Client(url, retries=Retries(seconds=0), user_agent="tagcast-demo")


def wait_for(holds: Callable[[], bool], timeout_s: float, every_s: float = 0.1) -> None:
    """Call *holds* every *every_s* seconds until it returns True, but for at most *timeout_s* seconds."""
    deadline = time.monotonic() + timeout_s
    while not holds() and time.monotonic() < deadline:
        time.sleep(every_s)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # The stack leads its own process group.
        process.wait()


@contextmanager
def own_stack(time_scale: float, *, show_log: bool = False) -> Iterator[str]:
    """Run a fresh stack in a temporary folder; yield its URL. Raises StackError if it is not ready in a minute."""
    with tempfile.TemporaryDirectory(prefix="tagcast-demo-", ignore_cleanup_errors=True) as folder:
        log_path, state = Path(folder, "stack.log"), Path(folder, "state")
        command = [
            sys.executable,
            "-m",
            "local",
            "--port",
            "0",
            "--data",
            str(state),
            "--time-scale",
            f"{time_scale:g}",
        ]
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=None if show_log else log,
                stderr=None if show_log else subprocess.STDOUT,
                start_new_session=True,
            )
        announced = state / "stack.json"
        try:
            wait_for(lambda: process.poll() is not None or announced.exists(), START_TIMEOUT_S, 0.2)
            if process.poll() is not None or not announced.exists():
                reason = f"it ended with {process.poll()}" if process.poll() is not None else "no answer"
                raise StackError(reason, log_path.read_text("utf-8", "replace")[-3000:])
            yield json.loads(announced.read_text())["url"]
        finally:
            _stop(process)
