"""A steady rate of messages to the API."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """At most *rate* messages a second, counted from the first one."""

    rate: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    _free_at: float = 0.0

    def wait(self, messages: int) -> None:
        """Wait until *messages* more may be sent."""
        now = self.clock()
        if self._free_at > now:
            self.sleep(self._free_at - now)
        self._free_at = max(self._free_at, now) + messages / self.rate
