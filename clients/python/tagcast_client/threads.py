"""Functions, threads and slots of the synchronous half. `asyncio_tasks` has each of them for the asynchronous half."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tagcast_client.operation import Page
from tagcast_client.received import Pulled

T = TypeVar("T")

Listener = Callable[[Sequence[Pulled]], object]
PageReader = Callable[[str | None], Page[T]]
Sleep = Callable[[float], object]


class Tasks:
    """Tasks that start one by one, stop together, and end together."""

    def __init__(self) -> None:
        self._running: set[threading.Thread] = set()
        self._stop, self._abandoned = threading.Event(), threading.Event()

    @property
    def stopping(self) -> bool:
        """Whether the tasks were stopped."""
        return self._stop.is_set()

    def start(self, work: Callable[..., None], *arguments: Any) -> None:
        """Let *work* run beside the others."""
        thread = threading.Thread(target=work, args=arguments, name="tagcast-consumer", daemon=True)
        self._running = {each for each in self._running if each.is_alive()} | {thread}
        thread.start()

    def pause(self, seconds: float | None = None) -> bool:
        """Wait for the stop, at most *seconds*. Return whether it came."""
        return self._stop.wait(seconds)

    def stop(self) -> None:
        """Tell all to stop."""
        self._stop.set()

    @property
    def is_abandoned(self) -> bool:
        """Whether the remaining tasks were abandoned."""
        return self._abandoned.is_set()

    def abandon(self, seconds: float) -> None:
        """Wait until all have ended, at most *seconds*; then leave them running."""
        until = time.monotonic() + seconds
        for thread in self._running:
            thread.join(max(0.0, until - time.monotonic()))
        self._abandoned.set()

    def join(self) -> None:
        """Wait until all tasks have ended, including new ones."""
        while self._running:
            done, self._running = self._running, set()
            for thread in done:
                thread.join()


class Slots:
    """A number of places for work beside each other."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._changed = threading.Condition()

    def take(self, most: int) -> int:
        """Wait until there is a free one; take as many as there are, *most* at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._free)
            taken = min(most, self._free)
            self._free -= taken
            return taken

    def give_back(self, count: int) -> None:
        """Let others take *count*."""
        with self._changed:
            self._free += count
            self._changed.notify_all()
