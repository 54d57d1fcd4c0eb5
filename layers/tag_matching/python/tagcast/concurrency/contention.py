"""Rows that many write at once: bounded repetition with pauses of full jitter, and a typed error at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tagcast.errors import ConditionLostError, UnavailableError
from tagcast.ports import World

TRIES_MAX = 8
FIRST_WINDOW_S, GROWTH = 0.02, 4
WINDOW_S_MAX = 1.0

T = TypeVar("T")


def window_s(lost: int) -> float:
    """Return within how many seconds to try again after *lost* tries: it grows fast, so that a herd thins out.

    >>> [window_s(lost) for lost in (1, 2, 3, 4, 5)]
    [0.02, 0.08, 0.32, 1.0, 1.0]
    """
    return min(FIRST_WINDOW_S * float(GROWTH ** min(lost - 1, 9)), WINDOW_S_MAX)


def pause_s(world: World, lost: int) -> float:
    """Return how long to wait after *lost* tries: any time within the window, so that a herd spreads over it."""
    return world.dice.uniform(0.0, window_s(lost))


def until_won(world: World, what: str, attempt: Callable[[], T]) -> T:
    """Return what *attempt* returns; repeat it while others are faster, for a few seconds at most.

    It has to read anew each time and to end in one conditional write. Raises UnavailableError, naming *what* is
    contended, and whatever else *attempt* raises.
    """
    for lost in range(1, TRIES_MAX + 1):
        try:
            return attempt()
        except ConditionLostError:
            if lost < TRIES_MAX:
                world.clock.sleep(pause_s(world, lost))
    raise UnavailableError(f"{what} is being changed by too many requests; try again")
