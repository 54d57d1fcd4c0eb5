"""Isolated pieces of work: a failure of one is reported and does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.ports import World

T = TypeVar("T")
R = TypeVar("R")


def at_once(work: Callable[[T], R]) -> Callable[[T], Coroutine[Any, Any, R]]:
    """Wrap a synchronous function as a coroutine function, for :func:`each`."""

    async def run(item: T) -> R:
        return work(item)

    return run


async def each(world: World, what: str, items: Iterable[T], work: Callable[[T], Coroutine[Any, Any, R]]) -> list[R]:
    """Run *work* on all *items* concurrently; return the results in the order of the items, without failed items.

    Telemetry gets each failure under the name *what*. Use this only for work that is done again later if it fails, such
    as the work of the sweep.
    """
    done: dict[int, R] = {}

    async def keep(place: int, item: T) -> None:
        done[place] = await work(item)

    for fault in await side_by_side(keep(place, item) for place, item in enumerate(items)):
        world.telemetry.record_failure(what, fault)
    return [done[place] for place in sorted(done)]
