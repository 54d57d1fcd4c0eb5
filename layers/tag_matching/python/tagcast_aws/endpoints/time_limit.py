"""The timeout of a push. A timeout that runs out while the event loop is blocked is extended."""

from __future__ import annotations

import asyncio
from types import TracebackType

LATE_S = 0.05
"""A timer with a longer delay (s) shows that the event loop was blocked. A response may be waiting unread."""
EXTENSIONS_MAX = 3


class TimeLimit:
    """Ends its block with TimeoutError after *seconds*, or slightly later if the loop was blocked.

    Blocked time is the service's fault, so the receiver gets this time in addition, at most ``EXTENSIONS_MAX`` times.
    """

    __slots__ = ("_extensions", "_limit", "_loop", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._extensions = 0
        self._loop = asyncio.get_running_loop()
        self._limit = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()
        self._wait(self._loop.time() + self._seconds)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        await self._limit.__aexit__(kind, error, trace)

    def _wait(self, until: float) -> None:
        self._timer = self._loop.call_at(until, self._over, until)

    def _over(self, due_at: float) -> None:
        late_s = self._loop.time() - due_at
        if late_s > LATE_S and self._extensions < EXTENSIONS_MAX:
            self._extensions += 1
            self._wait(self._loop.time() + min(late_s, self._seconds))
        else:
            self._limit.reschedule(self._loop.time())
