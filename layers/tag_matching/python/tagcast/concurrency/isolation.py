"""Many pieces of work beside each other: one that fails is told of and stops none of the others."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.ports import World

T = TypeVar("T")
R = TypeVar("R")


def at_once(work: Callable[[T], R]) -> Callable[[T], Coroutine[Any, Any, R]]:
    """Return as :func:`each` takes it what waits for nothing, such as to read a row's attributes."""

    async def done(item: T) -> R:
        return work(item)

    return done


async def each(world: World, what: str, items: Iterable[T], work: Callable[[T], Coroutine[Any, Any, R]]) -> list[R]:
    """Return what came of *work* on each of the items, in their order; those that failed are left out.

    A failure is told to the telemetry as one of *what*. That is for work which somebody repeats: here, the sweep.
    """
    done: dict[int, R] = {}

    async def kept(place: int, item: T) -> None:
        done[place] = await work(item)

    for fault in await side_by_side(kept(place, item) for place, item in enumerate(items)):
        world.telemetry.failed(what, fault)
    return [done[place] for place in sorted(done)]
