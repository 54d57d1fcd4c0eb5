"""Time and chance from the machine."""

from __future__ import annotations

import asyncio
import random
import secrets
import time

from tagcast.model import ID_SEQUENCE_BITS


class SystemClock:
    """The port ``Clock``."""

    def now(self) -> int:
        """Return milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait, and let everything in this process wait."""
        time.sleep(seconds)

    async def pause(self, seconds: float) -> None:
        """Wait while the other work of the running loop goes on."""
        await asyncio.sleep(seconds)


class SystemDice:
    """The port ``Dice``. Ids of one process grow strictly; those of several are ordered by millisecond."""

    def __init__(self) -> None:
        self._last = 0

    def uniform(self, low: float, high: float) -> float:
        """Return a number in [low, high]."""
        return random.uniform(low, high)

    def unique_id(self, now: int) -> str:
        """Return 20 decimal digits: 42 bits of milliseconds, 22 of chance or, within one millisecond, sequence."""
        fresh = (now << ID_SEQUENCE_BITS) | secrets.randbits(ID_SEQUENCE_BITS - 1)
        self._last = fresh if fresh >> ID_SEQUENCE_BITS > self._last >> ID_SEQUENCE_BITS else self._last + 1
        return f"{self._last:020d}"
