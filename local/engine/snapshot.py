"""Keeps the engine's state on disk while it runs: one consistent copy of all services, if anything was written."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from local.engine.asgi import Application, Receive, Scope, Send

SHARE = 20.0
"""Between two snapshots so many times as much time passes as one takes of the engine's processor."""
READS = ("Get", "BatchGet", "TransactGet", "Query", "Scan", "Describe", "List", "Head", "ReceiveMessage")
"""How the operations are called that write nothing; who received a message is told when it deletes it."""

States = Mapping[str, Callable[[], Any]]
"""What answers the state of each service, in the order in which they are written."""


def is_read(scope: Scope) -> bool:
    """Whether a request writes nothing.

    >>> is_read({"type": "http", "method": "POST", "headers": [(b"x-amz-target", b"DynamoDB_20120810.GetItem")]})
    True
    >>> is_read({"type": "http", "method": "POST", "headers": []})
    False
    """
    for name, value in scope["headers"]:
        if name == b"x-amz-target":
            return bool(value.decode("latin-1").partition(".")[2].startswith(READS))
    return scope["method"] in ("GET", "HEAD")


class Snapshots:
    """Writes the *states* into a folder, each as `written` has it: service and state in, JSON out."""

    def __init__(self, states: Callable[[], States], folder: Path, written: Callable[[str, Any], str]) -> None:
        self._states = states
        self._folder = folder
        self._written = written
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = False

    def watching(self, application: Application) -> Application:
        """The application, of which it is remembered whether anything was written."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            self._loop = asyncio.get_running_loop()
            if scope["type"] == "http" and not is_read(scope):
                self._changed = True
                try:
                    await application(scope, receive, send)
                finally:  # What it awaited may have let a snapshot pass before it wrote.
                    self._changed = True
            else:
                await application(scope, receive, send)

        return watched

    def save(self) -> float:
        """Write one consistent snapshot if anything was written; answers how many seconds of processor time it took.

        The services are written in their order, the tables before the queues: a kill in between leaves queue entries
        of messages that are done, which are harmless, or none of new messages, which the relay sends again.
        """
        if self._loop is None or not self._loop.is_running() or not self._changed:
            return 0.0
        self._changed = False
        copies, copying_s = asyncio.run_coroutine_threadsafe(self._copied(), self._loop).result()
        began = time.thread_time()
        self._write(copies)
        return copying_s + time.thread_time() - began

    def save_regularly(self, every_s: float, stopped: threading.Event) -> None:
        """Write one as often as is good for the engine, until it is stopped."""
        pause_s = every_s
        while not stopped.wait(pause_s):
            pause_s = max(every_s, SHARE * self.save())

    def save_last(self) -> None:
        """Write what there is when nothing runs any more."""
        self._write(self._copies())

    async def _copied(self) -> tuple[dict[str, Any], float]:
        """Copy the state of all services at one instant: nothing else runs on the loop for these seconds."""
        began = time.thread_time()
        return self._copies(), time.thread_time() - began

    def _copies(self) -> dict[str, Any]:
        copies = {}
        for name, state_of in self._states().items():
            try:
                copies[name] = state_of()
            except Exception as fault:  # noqa: BLE001  One service's state must not cost the others theirs.
                print(f"cannot copy the state of {name}: {fault!r}", flush=True)
        return copies

    def _write(self, copies: Mapping[str, Any]) -> None:
        for name, state in copies.items():
            if state is None:
                continue
            draft = self._folder / f"{name}.json.tmp"
            try:
                draft.write_text(self._written(name, state))
                draft.replace(self._folder / f"{name}.json")
            except (OSError, TypeError, ValueError) as fault:
                print(f"cannot write the state of {name}: {fault!r}", flush=True)


def as_persisted(version: int, state: Any, default: Callable[[Any], Any]) -> str:
    """The state as the engine reads it when it starts; its own writer takes ten times as long for the same text.

    >>> as_persisted(2, {"a": 1}, str)
    '{"__ministack_format__": 2, "payload": {"a": 1}}'
    """
    return json.dumps({"__ministack_format__": version, "payload": state}, default=default)
