"""Work side by side that ends together: nothing that one use case starts outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import Any


async def side_by_side(works: Iterable[Coroutine[Any, Any, None]]) -> list[Exception]:
    """Let all *works* run until each has ended; return the faults of those that failed, none of which stops another.

    When it is cancelled, or one ends by something that is no fault (a process that has to stop), all the others
    are cancelled and awaited first.
    """
    faults: list[Exception] = []

    async def watched(work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as fault:  # noqa: BLE001  The caller gets it, when the others have ended.
            faults.append(fault)

    begun = tuple(works)
    if len(begun) <= 1:  # Most often there is nothing, or nobody beside it: no group of tasks has to be made for that.
        for work in begun:
            await watched(work)
        return faults
    async with Together() as group:
        for work in begun:
            group.create_task(watched(work))
    return faults


class Together(asyncio.TaskGroup):
    """A group of tasks that is left with the last of them; what stops one of them comes out of it as it is."""

    async def __aexit__(
        self, kind: type[BaseException] | None, stopped: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is GeneratorExit:  # It is closed without a loop: nothing can be awaited any more.
            return
        try:
            await super().__aexit__(kind, stopped, trace)
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
