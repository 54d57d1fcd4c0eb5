"""Contended rows: bounded retries with full jitter, and a typed error at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tagcast.errors import ConditionLostError, TableThrottledError, UnavailableError
from tagcast.ports import World

TRIES_MAX = 8
FIRST_WINDOW_S, GROWTH = 0.02, 4
WINDOW_S_MAX = 1.0
THROTTLED_S_MAX = 2.0
"""The time after which a throttled write is not retried. The SDK itself retries a single write for seconds."""

T = TypeVar("T")


def window_s(lost: int) -> float:
    """Return the maximum pause in seconds after *lost* failed tries. It grows quickly, to spread many writers.

    >>> [window_s(lost) for lost in (1, 2, 3, 4, 5)]
    [0.02, 0.08, 0.32, 1.0, 1.0]
    """
    return min(FIRST_WINDOW_S * float(GROWTH ** min(lost - 1, 9)), WINDOW_S_MAX)


def pause_s(world: World, lost: int) -> float:
    """Return a random pause of at most ``window_s(lost)`` seconds, after *lost* failed tries."""
    return world.dice.uniform(0.0, window_s(lost))


def until_won(world: World, what: str, attempt: Callable[[], T]) -> T:
    """Call *attempt* until its write succeeds, for a few seconds at most; return its result.

    Each call of *attempt* must read again, and end with one conditional write. A lost condition leads to the next call.
    After the last call this function raises UnavailableError, with *what* as the name of the contended row. If the
    table still throttles writes after :data:`THROTTLED_S_MAX`, it raises TableThrottledError. It raises any other error
    of *attempt* at once.
    """
    until = world.clock.now() + round(THROTTLED_S_MAX * 1000)
    for lost in range(1, TRIES_MAX + 1):
        try:
            return attempt()
        except ConditionLostError as error:
            if isinstance(error, TableThrottledError) and world.clock.now() >= until:
                raise
            if lost < TRIES_MAX:
                world.clock.sleep(pause_s(world, lost))
    raise UnavailableError(f"{what} is being changed by too many requests; try again")
