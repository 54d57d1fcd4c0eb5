"""Tasks and slots of the asynchronous consumer; `threads` is the same for the synchronous consumer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from inspect import isawaitable
from typing import Any, TypeVar

from tagcast_client.consuming import ConsumeStatus, Later
from tagcast_client.operation import Page
from tagcast_client.received import Pulled

T = TypeVar("T")

AsyncListener = Callable[[Sequence[Pulled]], Awaitable[ConsumeStatus | Later | None]]
AsyncPageReader = Callable[[str | None], Awaitable[Page[T]]]
AsyncSleep = Callable[[float], Awaitable[object]]


async def async_verdict(listener: AsyncListener, messages: Sequence[Pulled]) -> object:
    """Call *listener* with *messages*, and return its verdict.

    Raises TypeError for a listener that is not async, and RuntimeError if the listener awaited something that was
    cancelled.
    """
    try:
        called = listener(messages)
        if not isawaitable(called):
            raise TypeError(f"a listener of an AsyncConsumer must be async, but it returned {called!r}")
        return await called
    except asyncio.CancelledError as fault:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("the listener awaited something that was cancelled") from fault


def report_fault(on_error: Callable[[Exception], None], fault: Exception) -> None:
    """Call *on_error* with *fault*. If *on_error* calls ``sys.exit``, the event loop ends."""
    on_error(fault)


def get_runtime() -> object:
    """Return what identifies this process and event loop. A client opens new connections when the result changes."""
    try:
        return os.getpid(), asyncio.get_running_loop()
    except RuntimeError:  # Of trio, with which the client works if you give it *sleep*.
        return os.getpid()


def is_abandoned() -> bool:
    """Return False, because an abandoned task is cancelled. In `threads`, an abandoned thread continues."""
    return False


class AsyncTasks:
    """Tasks that are started one at a time. `stop` asks all of them to stop; `join` waits until all have ended."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    def start(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        """Run *work* concurrently with the other tasks."""
        self._running = {each for each in self._running if not each.done()} | {asyncio.create_task(work(*arguments))}

    async def pause(self, seconds: float | None = None) -> bool:
        """Wait for `stop`, for at most *seconds*, or without end if it is None. Return whether `stop` was called."""
        if not self.stopping:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), seconds)
        return self.stopping

    def stop(self) -> None:
        """Ask all tasks to stop."""
        self._stop.set()

    async def abandon(self, seconds: float) -> None:
        """Wait for the end of all tasks, for at most *seconds*; cancel the rest. Raise the error of a failed task."""
        try:
            if self._running:
                await asyncio.wait(self._running, timeout=seconds)
        finally:  # Also if this wait is cancelled.
            for task in self._running:
                task.cancel()
        for ended in await asyncio.gather(*self._running, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def join(self) -> None:
        """Wait until all other tasks have ended, including new ones. Raise the error of a failed task."""
        while others := {each for each in self._running if each is not asyncio.current_task()}:
            await asyncio.wait(others)  # If this wait is cancelled, the others continue.
            self._running -= others
            for task in others:
                if not task.cancelled() and (fault := task.exception()) is not None:
                    raise fault

    def has_caller(self) -> bool:
        """Return whether the current task is one of these tasks."""
        return asyncio.current_task() in self._running


class AsyncSlots:
    """Slots that limit concurrent work."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    async def take(self, most: int) -> int:
        """Wait for a free slot. Take all free slots, at most *most*, and return their number."""
        await self._free.acquire()
        taken = 1
        while taken < most and not self._free.locked():
            await self._free.acquire()
            taken += 1
        return taken

    def give_back(self, count: int) -> None:
        """Free *count* slots."""
        for _ in range(count):
            self._free.release()
