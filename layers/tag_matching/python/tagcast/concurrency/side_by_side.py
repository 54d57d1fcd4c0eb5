"""Work side by side that ends together: nothing that one use case starts outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
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
    async with together() as group:
        for work in begun:
            group.create_task(watched(work))
    return faults


@asynccontextmanager
async def together() -> AsyncIterator[asyncio.TaskGroup]:
    """Return a context that ends with the last of its tasks; what stops one of them comes out of it as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as stopped:
        raise stopped.exceptions[0] from None
