"""Threads for blocking calls of AWS, so that the event loop of the pushes goes on meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

CALLS_MAX = 32
"""At most 32 calls are under way at once, because the clients of the table and the workflow keep as many
connections."""

T = TypeVar("T")


class ThreadExecutor:
    """The port ``Executor``; threads are started when they are first needed and kept for later invocations."""

    def __init__(self, calls_max: int = CALLS_MAX, threads: Executor | None = None) -> None:
        self._threads = threads or ThreadPoolExecutor(calls_max, thread_name_prefix="aws")

    async def run(self, call: Callable[[], T]) -> T:
        """Return what *call* makes, in a thread; a cancelled wait lets it end first."""
        import asyncio  # Functions that push need it; the others start faster without.

        submitted = self._threads.submit(call)
        under_way = asyncio.wrap_future(submitted)
        try:
            return await asyncio.shield(under_way)
        except asyncio.CancelledError:
            # Only the thread's own future knows whether the call has begun; asyncio's lets itself be cancelled always.
            if not submitted.cancel():
                await asyncio.wait((under_way,))
            raise
