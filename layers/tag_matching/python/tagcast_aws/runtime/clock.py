"""The system's clock."""

from __future__ import annotations

import time


class SystemClock:
    """The port ``Clock``."""

    def now(self) -> int:
        """Return milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block the whole process."""
        time.sleep(seconds)

    async def pause(self, seconds: float) -> None:
        """Wait while other tasks of the running loop continue."""
        import asyncio  # Only pushing functions need it; others start faster without.

        await asyncio.sleep(seconds)
