"""The time of this machine."""

from __future__ import annotations

import time


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
        import asyncio  # Functions that push need it; the others start faster without.

        await asyncio.sleep(seconds)
