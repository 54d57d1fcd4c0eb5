"""A kind of row: how its key is made, and the two functions between its rows and its values.

docs/tables.md says what stands in each; a test compares it with the rows that a long story leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tagcast.tables import Expectation, Key, Put, Store, Value

_T = TypeVar("_T")
Attributes = Mapping[str, Any]
"""The attributes of a row as it was read, each of the type that its writer gave it."""


@dataclass(frozen=True)
class Kind(Generic[_T]):
    """One kind of row: *key* makes its key of what it is named by; no row that *row_of* returns has its key."""

    key: Callable[..., Key]
    row_of: Callable[[_T], dict[str, Value]]
    value_of: Callable[[Attributes], _T]

    def read(self, store: Store, *named: str | int) -> _T | None:
        """Return the value in the row whose key is made of what is *named*; None if there is none."""
        row = store.get(self.key(*named))
        return None if row is None else self.value_of(row)

    def put(self, value: _T, *named: str | int, expect: Expectation | None = None) -> Put:
        """Return the write of a value to the row whose key is made of what is *named*, on condition of *expect*."""
        return Put(self.key(*named), self.row_of(value), expect or {})
