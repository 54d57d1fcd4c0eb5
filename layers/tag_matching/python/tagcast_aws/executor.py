"""Threads for blocking calls of AWS, so that the event loop of the pushes goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

CALLS_MAX = 32
"""So many calls are under way at once; the clients of the table and the workflow keep as many connections."""

T = TypeVar("T")


class ThreadExecutor:
    """The port ``Executor``; threads are started when they are first needed and kept for later invocations."""

    def __init__(self, calls_max: int = CALLS_MAX) -> None:
        self._threads = ThreadPoolExecutor(calls_max, thread_name_prefix="aws")

    async def run(self, call: Callable[[], T]) -> T:
        """Return what *call* makes, in a thread; a cancelled wait lets it end first."""
        under_way = asyncio.get_running_loop().run_in_executor(self._threads, call)
        try:
            return await asyncio.shield(under_way)
        except asyncio.CancelledError:
            if not under_way.cancel():
                await asyncio.wait((under_way,))
            raise
