"""The memory of one process across invocations."""

from __future__ import annotations

from typing import Any, TypeVar

K = TypeVar("K")


class Memory:
    """One value for each class, such as a cache. Each class is private to the package that defines it.

    Losing this memory costs time, but never changes an answer.

    >>> class Seen(set[str]): "Words that were seen."
    >>> memory = Memory()
    >>> memory.of(Seen).add("a")
    >>> memory.of(Seen)
    Seen({'a'})
    """

    def __init__(self) -> None:
        self._kept: dict[type[Any], Any] = {}

    def of(self, kind: type[K]) -> K:
        """Return the value of the class *kind*. The first call creates it with ``kind()``."""
        kept: K | None = self._kept.get(kind)
        if kept is None:
            kept = self._kept[kind] = kind()
        return kept
