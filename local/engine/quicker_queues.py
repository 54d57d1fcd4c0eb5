"""Spares the engine's queues to look, for each message that is sent, at all that was sent in the last five minutes."""

import time
from types import ModuleType
from typing import Any


def install(queues: ModuleType) -> None:
    """Have the engine's service of queues forget what is over, and leave the rest where it is."""
    queues._prune_dedup = forget_the_expired  # type: ignore[attr-defined]


def forget_the_expired(queue: dict[str, Any]) -> None:
    """Forget the ids of deduplication whose window is over: the oldest, since all windows are as long.

    >>> queue = {"dedup_cache": {"old": {"expire": 0.0}, "new": {"expire": time.time() + 300}}}
    >>> forget_the_expired(queue)
    >>> list(queue["dedup_cache"])
    ['new']
    """
    known: dict[str, Any] = queue["dedup_cache"]
    now = time.time()
    while known and known[oldest := next(iter(known))]["expire"] <= now:
        del known[oldest]
