"""What one process remembers from one invocation to the next."""

from __future__ import annotations

from typing import Any, TypeVar

K = TypeVar("K")


class Memory:
    """Values by their class: each kind is defined by the room that keeps it, and nobody else knows of it.

    Losing it costs time and never changes an answer, so another process may know less, or something older.

    >>> class Seen(set[str]): "Words that were seen."
    >>> memory = Memory()
    >>> memory.of(Seen).add("a")
    >>> memory.of(Seen)
    Seen({'a'})
    """

    def __init__(self) -> None:
        self._kept: dict[type[Any], Any] = {}

    def of(self, kind: type[K]) -> K:
        """Return what is kept of *kind*; at first that is ``kind()``."""
        kept: K | None = self._kept.get(kind)
        if kept is None:
            kept = self._kept[kind] = kind()
        return kept
