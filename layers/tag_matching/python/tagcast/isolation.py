"""Work side by side that ends together: nothing that one use case starts outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from tagcast.ports import World

T = TypeVar("T")
R = TypeVar("R")


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

    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(watched(work))
    except BaseExceptionGroup as stopped:
        raise stopped.exceptions[0] from None
    return faults


async def each(world: World, what: str, items: Iterable[T], work: Callable[[T], Coroutine[Any, Any, R]]) -> list[R]:
    """Return what came of *work* on each of the items, in their order; those that failed are left out.

    A failure is told to the journal as one of *what*. That is for work which somebody repeats: here, the sweep.
    """
    done: dict[int, R] = {}

    async def kept(place: int, item: T) -> None:
        done[place] = await work(item)

    for fault in await side_by_side(kept(place, item) for place, item in enumerate(items)):
        world.journal.failed(what, fault)
    return [done[place] for place in sorted(done)]
