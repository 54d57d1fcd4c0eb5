"""Speeds up the engine's queues: each send no longer scans all ids of the last five minutes."""

import time
from types import ModuleType
from typing import Any


def install(queues: ModuleType) -> None:
    """Make the engine's queue service drop only expired ids."""
    queues._prune_dedup = forget_the_expired  # type: ignore[attr-defined]


def forget_the_expired(queue: dict[str, Any]) -> None:
    """Drop the expired deduplication ids, which are the oldest, because all windows are equal.

    >>> queue = {"dedup_cache": {"old": {"expire": 0.0}, "new": {"expire": time.time() + 300}}}
    >>> forget_the_expired(queue)
    >>> list(queue["dedup_cache"])
    ['new']
    """
    known: dict[str, Any] = queue["dedup_cache"]
    now = time.time()
    while known and known[oldest := next(iter(known))]["expire"] <= now:
        del known[oldest]
