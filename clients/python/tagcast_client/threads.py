"""Threads and slots of the synchronous consumer; `asyncio_tasks` is the same for the asynchronous consumer."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tagcast_client.consuming import ConsumeStatus, Later
from tagcast_client.operation import Page
from tagcast_client.received import Pulled

T = TypeVar("T")

Listener = Callable[[Sequence[Pulled]], ConsumeStatus | Later | None]
PageReader = Callable[[str | None], Page[T]]
Sleep = Callable[[float], object]


def verdict(listener: Listener, messages: Sequence[Pulled]) -> object:
    """Call *listener* with *messages*, and return its verdict. An exception of the listener is raised unchanged.

    But ``SystemExit`` and any other `BaseException` that is not an `Exception` become a RuntimeError.
    """
    with _report_all("the listener"):
        return listener(messages)


def report_fault(on_error: Callable[[Exception], None], fault: Exception) -> None:
    """Call *on_error* with *fault*. Exceptions of *on_error* are raised unchanged.

    But ``SystemExit`` and any other `BaseException` that is not an `Exception` become a RuntimeError.
    """
    with _report_all("on_error"):
        on_error(fault)


@contextmanager
def _report_all(what: str) -> Iterator[None]:
    """Raise RuntimeError, which is reported, for other than an Exception: that would end a thread that holds a slot."""
    try:
        yield
    except Exception:
        raise
    except SystemExit as fault:
        raise RuntimeError(f"{what} exited with {fault.code}; call shutdown instead") from fault
    except BaseException as fault:
        raise RuntimeError(f"{what} raised {fault!r}") from fault


def get_runtime() -> object:
    """Return what identifies this process. A client opens new connections when the result changes."""
    return os.getpid()


class _Worker(threading.Thread):
    is_abandoned = False


def is_abandoned() -> bool:
    """Return whether the current thread was abandoned. An abandoned thread must begin no new work."""
    thread = threading.current_thread()
    return isinstance(thread, _Worker) and thread.is_abandoned


class Tasks:
    """Threads that are started one at a time. `stop` asks all of them to stop; `join` waits until all have ended."""

    def __init__(self) -> None:
        self._running: set[_Worker] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._is_over = False

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    def start(self, work: Callable[..., None], *arguments: Any) -> None:
        """Run *work* concurrently with the other threads. Do nothing after `join`."""
        thread = _Worker(target=work, args=arguments, name="tagcast-consumer", daemon=True)
        with self._lock:
            if self._is_over:
                return
            self._running = {each for each in self._running if each.is_alive()} | {thread}
            thread.start()

    def pause(self, seconds: float | None = None) -> bool:
        """Wait for `stop`, for at most *seconds*, or without end if it is None. Return whether `stop` was called."""
        return self._stop.wait(seconds)

    def stop(self) -> None:
        """Ask all threads to stop."""
        self._stop.set()

    def abandon(self, seconds: float) -> None:
        """Wait for at most *seconds* until other threads end. Mark the rest as abandoned, so they begin no new work."""
        until, others = time.monotonic() + seconds, self._others()
        try:
            for thread in others:
                thread.join(max(0.0, until - time.monotonic()))
        finally:  # Also after Ctrl-C.
            for thread in others:
                thread.is_abandoned = True

    def join(self) -> None:
        """Wait until all other threads have ended, including new ones."""
        while others := self._others(is_last=True):
            others.pop().join()

    def has_caller(self) -> bool:
        """Return whether the current thread is one of these threads."""
        return threading.current_thread() in self._running

    def _others(self, *, is_last: bool = False) -> set[_Worker]:
        """Return the other threads that run. *is_last*: if there are none, no further thread starts."""
        with self._lock:
            others = {each for each in self._running if each.is_alive() and each is not threading.current_thread()}
            self._is_over = self._is_over or (is_last and not others)
        return others


class Slots:
    """Slots that limit concurrent work. A thread that gives slots back cannot take slots before a waiting thread."""

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
