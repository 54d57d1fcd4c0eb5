"""Virtual time for one caller alone: spending time moves the clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol

EPOCH = 1_900_000_000_000


class Timeline(Protocol):
    """Virtual time, as the services of the box see it."""

    @property
    def now(self) -> int:
        """Milliseconds since 1970."""

    def at(self, instant: int, effect: Callable[[], None]) -> None:
        """Let *effect* happen at *instant*; no caller needs to wait then."""

    def spend(self, ms: float) -> None:
        """Let the caller wait *ms*; others move meanwhile."""


class SoloTimeline:
    """The timeline of a test that has one caller."""

    def __init__(self, now: int = EPOCH) -> None:
        self._exact = float(now)
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0

    @property
    def now(self) -> int:
        return int(self._exact)

    def at(self, instant: int, effect: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._timers, (instant, self._serial, effect))

    def spend(self, ms: float) -> None:
        until = self._exact + ms
        while self._timers and self._timers[0][0] <= until:
            instant, _, effect = heapq.heappop(self._timers)
            self._exact = max(self._exact, float(instant))
            effect()
        self._exact = max(self._exact, until)


class StandingTimeline(SoloTimeline):
    """Calls take no time, so that all of them are of one instant."""

    def spend(self, ms: float) -> None:
        pass

    def pass_s(self, seconds: float) -> None:
        super().spend(1000 * seconds)
