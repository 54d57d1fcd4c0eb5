"""The system's clock and randomness, and threads for blocking AWS calls outside the event loop of the pushes."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from tagcast.ids import ID_SEQUENCE_BITS


class SystemClock:
    """Implements the port ``Clock``."""

    def now(self) -> int:
        """Return milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block the calling thread, with its event loop, for *seconds*."""
        time.sleep(seconds)

    async def pause(self, seconds: float) -> None:
        """Wait for *seconds* while other tasks of the running loop continue."""
        import asyncio  # Only pushing functions need it; others start faster without.

        await asyncio.sleep(seconds)


class SystemDice:
    """Implements the port ``Dice``.

    Ids of one process strictly increase. Ids of several processes are ordered by millisecond.
    """

    def __init__(self) -> None:
        self._last = 0

    def uniform(self, low: float, high: float) -> float:
        """Return a number in [low, high]."""
        return random.uniform(low, high)

    def unique_id(self, now: int) -> str:
        """Return 20 decimal digits: 42 bits of *now* in ms, and 22 bits that count up from a random number."""
        fresh = (now << ID_SEQUENCE_BITS) | secrets.randbits(ID_SEQUENCE_BITS - 1)
        self._last = fresh if fresh >> ID_SEQUENCE_BITS > self._last >> ID_SEQUENCE_BITS else self._last + 1
        return f"{self._last:020d}"

    def secret(self) -> str:
        """Return 256 random bits as text."""
        return secrets.token_urlsafe(32)


CALLS_MAX = 32
"""The maximum number of concurrent AWS calls, and of the connections of each AWS client."""

P = ParamSpec("P")
T = TypeVar("T")


class ThreadExecutor:
    """Implements the port ``Executor``. Threads are started on demand and reused by later invocations."""

    def __init__(self, calls_max: int = CALLS_MAX, threads: Executor | None = None) -> None:
        self._threads = threads or ThreadPoolExecutor(calls_max, thread_name_prefix="aws")

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run *call* in a thread; return its result.

        If the waiting task is cancelled, first wait until a begun call ends.
        """
        import asyncio  # Only pushing functions need it; others start faster without.

        submitted = self._threads.submit(call, *args, **kwargs)
        under_way = asyncio.wrap_future(submitted)
        try:
            return await asyncio.shield(under_way)
        except asyncio.CancelledError:
            # Only the thread's own future knows whether the call has begun; asyncio's can always be cancelled.
            if not submitted.cancel():
                await asyncio.wait((under_way,))
            raise
