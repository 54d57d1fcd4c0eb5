"""One page of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items and the cursor at which the next page begins (None: this was the last)."""

    items: tuple[T, ...]
    cursor: str | None = None
