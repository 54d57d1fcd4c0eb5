"""Threads for blocking AWS calls beside the event loop of the pushes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

CALLS_MAX = 32
"""Concurrent calls: as many as the connections of the clients of the table and the workflow."""

T = TypeVar("T")


class ThreadExecutor:
    """The port ``Executor``. Threads are started on demand and reused by later invocations."""

    def __init__(self, calls_max: int = CALLS_MAX, threads: Executor | None = None) -> None:
        self._threads = threads or ThreadPoolExecutor(calls_max, thread_name_prefix="aws")

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of *call* in a thread. If cancelled, wait first for a call that has begun."""
        import asyncio  # Only pushing functions need it; others start faster without.

        submitted = self._threads.submit(call)
        under_way = asyncio.wrap_future(submitted)
        try:
            return await asyncio.shield(under_way)
        except asyncio.CancelledError:
            # Only the thread's own future knows whether the call has begun; asyncio's can always be cancelled.
            if not submitted.cancel():
                await asyncio.wait((under_way,))
            raise
