"""One page of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Items, and the cursor of the next page (None: last page)."""

    items: tuple[T, ...]
    cursor: str | None = None
