"""Processing each message once, although it may be delivered several times."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

from tagcast_client.received import Received

LIFE_S = 86_400.0
"""A message lives a day at most; after that nothing repeats it."""


class SeenStore(Protocol):
    """Where names of messages are kept; a table with conditional writes serves, for more than one process."""

    def claim(self, name: str, life_s: float) -> bool:
        """Keep *name* for *life_s* seconds and say whether it was new; of two at the same time one is."""

    def forget(self, name: str) -> None:
        """Drop *name*, so that it is new again."""


class MemoryStore:
    """Names in this process's memory: at most *size_max*, the oldest go first."""

    def __init__(self, size_max: int = 100_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._size_max = size_max
        self._clock = clock
        self._until: OrderedDict[str, float] = OrderedDict()
        self._lock = Lock()

    def claim(self, name: str, life_s: float) -> bool:
        """Keep *name*; whether it was new."""
        now = self._clock()
        with self._lock:
            if self._until.get(name, 0.0) > now:
                return False
            self._until.pop(name, None)
            self._until[name] = now + life_s
            while len(self._until) > self._size_max:
                self._until.popitem(last=False)
            return True

    def forget(self, name: str) -> None:
        """Drop *name*."""
        with self._lock:
            self._until.pop(name, None)


class Deduplicator:
    """Tells a message that was processed from one that was not, by subscription and id."""

    def __init__(self, store: SeenStore | None = None, life_s: float = LIFE_S) -> None:
        self._store = store or MemoryStore()
        self._life_s = life_s

    @contextmanager
    def once(self, message: Received) -> Iterator[bool]:
        """Say whether *message* is new; if the block fails, it is new again, and the next delivery gets its turn.

        >>> message = Received("1", "orders", "billing", 1, b"")
        >>> seen = Deduplicator()
        >>> for _ in range(2):
        ...     with seen.once(message) as is_new:
        ...         print(is_new)
        True
        False
        """
        name = f"{message.topic}/{message.subscription}/{message.message_id}"
        is_new = self._store.claim(name, self._life_s)
        try:
            yield is_new
        except BaseException:
            if is_new:
                self._store.forget(name)
            raise
