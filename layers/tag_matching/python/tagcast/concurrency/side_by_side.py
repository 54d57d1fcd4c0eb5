"""Concurrent work that ends together: no task continues after its use case has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import Any


async def side_by_side(tasks: Iterable[Coroutine[Any, Any, None]]) -> list[Exception]:
    """Run all *tasks* concurrently until each has ended; return their faults. A fault stops no other task.

    If this call is cancelled, it cancels the tasks and waits for them. The same happens if a task raises a
    BaseException that is not an Exception, such as a process exit.
    """
    faults: list[Exception] = []

    async def run(task: Coroutine[Any, Any, None]) -> None:
        try:
            await task
        except Exception as fault:  # noqa: BLE001  The caller gets it after all tasks have ended.
            faults.append(fault)

    begun = tuple(tasks)
    if len(begun) <= 1:  # This is the usual case. It needs no task group.
        for task in begun:
            await run(task)
        return faults
    async with Together() as group:
        for task in begun:
            group.create_task(run(task))
    return faults


class Together(asyncio.TaskGroup):
    """A task group that ends with its last task, and raises the exception of a task itself, not an exception group."""

    async def __aexit__(
        self, kind: type[BaseException] | None, stopped: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is GeneratorExit:  # Closed without a loop: nothing can be awaited any more.
            return
        try:
            await super().__aexit__(kind, stopped, trace)
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
