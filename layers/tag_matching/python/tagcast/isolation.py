"""Many pieces of work beside each other: one that fails is told of and stops none of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TypeVar

from tagcast.ports import World

T = TypeVar("T")
R = TypeVar("R")


async def each(world: World, what: str, items: Iterable[T], work: Callable[[T], Coroutine[None, None, R]]) -> list[R]:
    """Return what came of *work* on each of the items, in their order; those that failed are left out.

    A failure is told to the journal as one of *what*. That is for work which somebody repeats: here, the sweep.
    """
    results = await asyncio.gather(*(work(item) for item in items), return_exceptions=True)
    done: list[R] = []
    for result in results:
        if isinstance(result, Exception):
            world.journal.failed(what, result)
        elif isinstance(result, BaseException):
            raise result
        else:
            done.append(result)
    return done
