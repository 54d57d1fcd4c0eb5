"""Functions, tasks and slots of the asynchronous half. `threads` has each of them for the synchronous half."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tagcast_client.operation import Page
from tagcast_client.received import Pulled

T = TypeVar("T")

AsyncListener = Callable[[Sequence[Pulled]], Awaitable[object]]
AsyncPageReader = Callable[[str | None], Awaitable[Page[T]]]
AsyncSleep = Callable[[float], Awaitable[object]]


class AsyncTasks:
    """Tasks that start one by one, stop together, and end together."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()

    @property
    def stopping(self) -> bool:
        """Whether the tasks were stopped."""
        return self._stop.is_set()

    def start(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        """Let *work* run beside the others."""
        running = {task for task in self._running if not task.done()}
        self._running = running | {asyncio.create_task(work(*arguments))}

    async def pause(self, seconds: float | None = None) -> bool:
        """Wait for the stop, at most *seconds*. Return whether it came."""
        if not self.stopping:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), seconds)
        return self.stopping

    def stop(self) -> None:
        """Tell all to stop."""
        self._stop.set()

    @property
    def is_abandoned(self) -> bool:
        """Whether the remaining tasks were cancelled."""
        return False

    async def abandon(self, seconds: float) -> None:
        """Wait until all have ended, at most *seconds*; then cancel them. Raise the error of a failed task."""
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=seconds)
            for task in late:
                task.cancel()
        for ended in await asyncio.gather(*self._running, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def join(self) -> None:
        """Wait until all tasks have ended, including new ones; raise the error of a failed task."""
        while self._running:
            done, self._running = self._running, set()
            await asyncio.gather(*done)


class AsyncSlots:
    """A number of places for work beside each other."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._changed = asyncio.Condition()

    async def take(self, most: int) -> int:
        """Wait until there is a free one; take as many as there are, *most* at most."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._free)
            taken = min(most, self._free)
            self._free -= taken
            return taken

    async def give_back(self, count: int) -> None:
        """Let others take *count*."""
        async with self._changed:
            self._free += count
            self._changed.notify_all()
