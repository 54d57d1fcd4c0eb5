"""The system's randomness: jitter and ids."""

from __future__ import annotations

import random
import secrets

from tagcast.ids import ID_SEQUENCE_BITS


class SystemDice:
    """The port ``Dice``. Ids of one process strictly increase; ids of several processes are ordered by millisecond."""

    def __init__(self) -> None:
        self._last = 0

    def uniform(self, low: float, high: float) -> float:
        """Return a number in [low, high]."""
        return random.uniform(low, high)

    def unique_id(self, now: int) -> str:
        """Return 20 decimal digits: 42 bits of milliseconds, and 22 bits that count up from a random number."""
        fresh = (now << ID_SEQUENCE_BITS) | secrets.randbits(ID_SEQUENCE_BITS - 1)
        self._last = fresh if fresh >> ID_SEQUENCE_BITS > self._last >> ID_SEQUENCE_BITS else self._last + 1
        return f"{self._last:020d}"

    def secret(self) -> str:
        """Return 256 random bits as text."""
        return secrets.token_urlsafe(32)
