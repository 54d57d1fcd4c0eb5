"""The demo's stack, and its requests to any stack."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tagcast_client import Accepted, Client, NewMessage, ProblemError, Retries, Retry, UnreachableError
from tagcast_client.models import Delivery, Entry, Lane

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0


class StackError(Exception):
    """The stack did not start; `log` is the end of its output."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.log = log


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def client_for(url: str) -> Client:
    """Return a client without retries."""
    return Client(url, retries=Retries(seconds=0), user_agent="tagcast-demo")


def is_healthy(api: Client) -> bool:
    """Return whether the service answers."""
    try:
        return api.health().status == "ok"
    except (ProblemError, UnreachableError):
        return False


def wait_for(holds: Callable[[], bool], timeout_s: float, every_s: float = 0.1) -> bool:
    """Poll until it holds; return False after the timeout."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def _stop(process: subprocess.Popen[bytes]) -> None:
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        # The stack leads its own process group; on Ctrl-C it ends its children itself.
        if signal_number == signal.SIGKILL:
            os.killpg(process.pid, signal_number)
        else:
            process.send_signal(signal_number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            continue


@contextmanager
def own_stack(time_scale: float, *, show_log: bool = False) -> Iterator[str]:
    """Run a fresh stack in a temporary folder while the block lasts; yield its URL.

    Raises StackError if it ends early or is not healthy within a minute.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="tagcast-demo-", ignore_cleanup_errors=True) as folder:
        log_path = Path(folder, "stack.log")
        command = [sys.executable, "-m", "local", "--fresh", "--port", str(port)]
        command += ["--data", str(Path(folder, "state")), "--time-scale", f"{time_scale:g}"]
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=None if show_log else log,
                stderr=None if show_log else subprocess.STDOUT,
                start_new_session=True,
            )
        api = client_for(url)
        try:
            wait_for(lambda: process.poll() is not None or is_healthy(api), START_TIMEOUT_S, 0.2)
            if process.poll() is not None or not is_healthy(api):
                reason = f"it ended with {process.poll()}" if process.poll() is not None else "no answer"
                raise StackError(reason, log_path.read_text("utf-8", "replace")[-3000:])
            yield url
        finally:
            _stop(process)


class Stage:
    """The demo's requests to the API for one topic."""

    def __init__(self, api: Client) -> None:
        self._api = api

    def make_topic(self, topic: str) -> None:
        """Create a topic with the default settings."""
        self._api.create_topic(topic)

    def subscribe(self, topic: str, name: str, url: str, retry: Retry) -> None:
        """Subscribe a receiver to everything."""
        self._api.create_subscription(topic, name, url, retry=retry)

    def remove(self, topic: str, *names: str) -> None:
        """Delete the subscriptions and the topic."""
        for name in names:
            self._api.delete_subscription(topic, name)
        self._api.delete_topic(topic)

    def publish(self, topic: str, bodies: list[str]) -> list[str]:
        """Publish in batches; return the ids in order."""
        results = self._api.publish_batch(topic, map(NewMessage, bodies))
        return [result.message_id for result in results if isinstance(result, Accepted)]

    def lane(self, topic: str, name: str) -> Lane:
        """Return the lane of a subscription."""
        lane = self._api.get_subscription(topic, name).lane
        assert lane is not None
        return lane

    def backlog(self, topic: str, name: str) -> list[Delivery]:
        """Return every pending delivery of a subscription, in order."""
        return list(self._api.list_backlog(topic, name, limit=100))

    def retained(self, topic: str) -> int:
        """Return the number of the topic's retained messages (eventually consistent)."""
        return self._api.get_topic(topic).retained_messages or 0

    def entry(self, topic: str, message_id: str, name: str) -> Entry:
        """Return a subscription's entry in the state map of a message."""
        return self._api.get_message(topic, message_id).subscribers[name]

    def push(self, topic: str) -> list[str]:
        """Retry the topic now; return the names of the retried lanes."""
        return list(self._api.retry_topic(topic))
