"""Threads and slots of the synchronous half. `asyncio_tasks` has the tasks and slots of the asynchronous half."""

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


def verdict(listener: Listener, messages: Sequence[Pulled]) -> object:
    """Return the listener's verdict. Raises RuntimeError if the listener called ``sys.exit``."""
    try:
        return listener(messages)
    except SystemExit as fault:
        raise RuntimeError(f"the listener exited with {fault.code}; call shutdown instead") from fault


class Tasks:
    """Threads that start one by one, stop together, and end together."""

    def __init__(self) -> None:
        self._running: set[threading.Thread] = set()
        self._joining: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.is_abandoned = False

    @property
    def stopping(self) -> bool:
        """Whether the threads were stopped."""
        return self._stop.is_set()

    def start(self, work: Callable[..., None], *arguments: Any) -> None:
        """Run *work* concurrently with the other threads."""
        thread = threading.Thread(target=work, args=arguments, name="tagcast-consumer", daemon=True)
        with self._lock:
            self._running = {each for each in self._running if each.is_alive()} | {thread}
            thread.start()

    def pause(self, seconds: float | None = None) -> bool:
        """Wait until the threads are stopped, at most *seconds*. Return whether the threads were stopped."""
        return self._stop.wait(seconds)

    def stop(self) -> None:
        """Tell all threads to stop."""
        self._stop.set()

    def abandon(self, seconds: float) -> None:
        """Wait at most *seconds* until all other threads have ended; then leave them running."""
        until = time.monotonic() + seconds
        for thread in self._started() - {threading.current_thread()}:
            thread.join(max(0.0, until - time.monotonic()))
        self.is_abandoned = True

    def join(self) -> None:
        """Wait until all threads have ended, including new ones.

        Threads of this group that call this method do not wait for each other. Any other caller waits for all.
        """
        own = {threading.current_thread()} & self._started()
        self._joining |= own
        while others := self._started() - (self._joining if own else own):
            others.pop().join()

    def _started(self) -> set[threading.Thread]:
        with self._lock:
            return {each for each in self._running if each.is_alive()}


class Slots:
    """Slots that limit concurrent work. A waiting thread gets slots before a thread that gives slots back."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._turn, self._freed = threading.Lock(), threading.Condition()

    def take(self, most: int) -> int:
        """Wait for a free slot. Take all free slots, at most *most*, and return their number."""
        with self._turn, self._freed:
            self._freed.wait_for(lambda: self._free > 0)
            taken = min(most, self._free)
            self._free -= taken
            return taken

    def give_back(self, count: int) -> None:
        """Free *count* slots."""
        with self._freed:
            self._free += count
            self._freed.notify()
