"""The timeout of a push: a receiver's time, from which what this process was busy for at its end is taken off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LATE_S = 0.05
"""A timer that comes later than this says that the event loop stood still: the answer may be waiting to be read."""
EXTENSIONS_MAX = 3


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """End the block by TimeoutError after so many *seconds*, or a little later if the loop was too busy to look.

    What stood still is the service's time: the receiver gets as much again, a few times at most.
    """
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def wait(until: float) -> None:
        timers.append(loop.call_at(until, over, until))

    def over(due_at: float) -> None:
        late_s = loop.time() - due_at
        if late_s > LATE_S and len(timers) <= EXTENSIONS_MAX:
            wait(loop.time() + min(late_s, seconds))
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        wait(loop.time() + seconds)
        try:
            yield
        finally:
            timers[-1].cancel()
