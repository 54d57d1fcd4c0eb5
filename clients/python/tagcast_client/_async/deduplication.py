"""Deduplication. `_sync` is built from `_async` by `hatch_build.py`; change `_async`."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from threading import Lock
from typing import Protocol

from tagcast_client.claims import LEASE_S, LIFE_S, Claim, InProgressError
from tagcast_client.received import Received


class AsyncSeenStore(Protocol):
    """Stores which messages are claimed or done. For several processes, use a table with conditional writes.

    A *name* identifies a message, and a *token* identifies one claim of it.
    """

    async def claim(self, name: str, token: str, lease_s: float) -> Claim:
        """Claim *name* for the holder of *token* for *lease_s* seconds. Return NEW if *name* was free.

        Return IN_PROGRESS while another token holds the claim, and DONE while *name* is confirmed. Only one of several
        simultaneous claims may return NEW.
        """

    async def confirm(self, name: str, life_s: float) -> None:
        """Record for *life_s* seconds that *name* is done, so that every later claim returns DONE."""

    async def release(self, name: str, token: str) -> None:
        """Release the claim of *name*, so that *name* is new again. Do nothing if another token holds the claim."""


class AsyncMemoryStore:
    """A store in this process's memory, with at most *size_max* names; the oldest names are deleted first."""

    def __init__(self, size_max: int = 100_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._size_max = size_max
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, str | None]] = OrderedDict()
        self._lock = Lock()

    async def claim(self, name: str, token: str, lease_s: float) -> Claim:
        """Claim *name* for the holder of *token* for *lease_s* seconds. Return NEW if *name* was free.

        Otherwise return IN_PROGRESS if a claim holds, or DONE if *name* is confirmed.
        """
        now = self._clock()
        with self._lock:
            until, holder = self._kept.get(name, (now, None))
            if until > now:
                return Claim.DONE if holder is None else Claim.IN_PROGRESS
            self._keep(name, now + lease_s, token)
            return Claim.NEW

    async def confirm(self, name: str, life_s: float) -> None:
        """Record for *life_s* seconds that *name* is done."""
        with self._lock:
            self._keep(name, self._clock() + life_s, None)

    async def release(self, name: str, token: str) -> None:
        """Release the claim of *name*. Do nothing if another token holds the claim."""
        with self._lock:
            if self._kept.get(name, (0.0, None))[1] == token:
                del self._kept[name]

    def _keep(self, name: str, until: float, holder: str | None) -> None:
        self._kept[name] = (until, holder)
        self._kept.move_to_end(name)
        while len(self._kept) > self._size_max:
            self._kept.popitem(last=False)


class AsyncDeduplicator:
    """Recognizes processed messages by subscription and id.

    A message is claimed for *lease_s* seconds, processed, and then confirmed for *life_s* seconds. If a process dies
    while it processes a message, the message is new again after the lease. If processing takes longer than the lease,
    the message may be processed twice. The default store is this process's memory. Use an external store for several
    processes.
    """

    def __init__(self, store: AsyncSeenStore | None = None, life_s: float = LIFE_S, lease_s: float = LEASE_S) -> None:
        self._store = store or AsyncMemoryStore()
        self._life_s = life_s
        self._lease_s = lease_s

    @asynccontextmanager
    async def once(self, message: Received) -> AsyncIterator[bool]:
        """Yield whether *message* is new, for a ``with`` block. If it is new, process the message in the block.

        If the block fails, the message is new again for its next delivery. Raises InProgressError if the message is
        being processed elsewhere.
        """
        name = f"{message.topic}/{message.subscription}/{message.message_id}"
        token = secrets.token_hex(8)
        claim = await self._store.claim(name, token, self._lease_s)
        if claim is Claim.IN_PROGRESS:
            raise InProgressError(name, self._lease_s)
        if claim is Claim.DONE:
            yield False
            return
        try:
            yield True
        except BaseException:
            await self._store.release(name, token)
            raise
        await self._store.confirm(name, self._life_s)
