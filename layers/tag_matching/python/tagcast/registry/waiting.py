"""Limits the waiting requests of each topic, so that no topic blocks another (docs/http-api.md, Waiting)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tagcast.concurrency.contention import TRIES_MAX, pause_s
from tagcast.errors import ConditionLostError, TableThrottledError, ThrottledError
from tagcast.ports import World
from tagcast.rows.waiting import WaitingFor, WaitingPlace, leaving_update, places, taking_update

LEFT_LATE_S = 10
"""A place becomes free at most 10 s after its wait, even if the process died. Until then the queue may still answer."""


@contextmanager
def waiting(world: World, topic: str, kind: WaitingFor, wait_s: float) -> Iterator[None]:
    """Hold one of *topic*'s places in a ``with`` block that waits up to *wait_s* seconds for *kind*.

    Raises ThrottledError if no place is free. If the place cannot be given back at the end, no error is raised; the
    place becomes free later by itself.
    """
    place = _take(world, topic, kind, wait_s)
    try:
        yield
    finally:
        _leave(world, place)


def _leave(world: World, place: WaitingPlace) -> None:
    try:
        world.store.write(leaving_update(place))
    except ConditionLostError:
        return  # The time of the wait was over, and another request took the place.
    except Exception as fault:  # noqa: BLE001  The messages of a pull must reach its member.
        world.telemetry.record_failure("a place for waiting", fault)


def _take(world: World, topic: str, kind: WaitingFor, wait_s: float) -> WaitingPlace:
    for lost in range(1, TRIES_MAX + 1):
        now = world.clock.now()
        free = [place for place in places(world.store, topic, kind, world.waiting_max) if (place.until or 0) <= now]
        if not free:
            break
        place = free[min(int(world.dice.uniform(0, len(free))), len(free) - 1)]
        until = now + round((wait_s + LEFT_LATE_S) * 1000)
        try:
            world.store.write(taking_update(place, until))
        except TableThrottledError:
            raise
        except ConditionLostError:
            world.clock.sleep(pause_s(world, lost))
        else:
            return replace(place, until=until)
    raise ThrottledError(
        f"{world.waiting_max} requests already wait for topic {topic}; send the request without waiting, or later"
    )
