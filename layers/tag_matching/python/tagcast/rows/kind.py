"""A kind of row: its key, its encoder and its decoder.

docs/tables.md lists the attributes of each kind. A test compares the list with the rows that a long scenario writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tagcast.tables import Expectation, Key, Put, Store, Value

_T = TypeVar("_T")
Attributes = Mapping[str, Any]
"""The attributes of a row as read, each with the type that was written."""


@dataclass(frozen=True)
class RowFormat(Generic[_T]):
    """One kind of row. *key* builds its key from names; *row_of* and *value_of* do not handle the key."""

    key: Callable[..., Key]
    row_of: Callable[[_T], dict[str, Value]]
    value_of: Callable[[Attributes], _T]

    def read(self, store: Store, *named: str | int) -> _T | None:
        """Return the value in the row with the key of *named*, or None if there is no such row."""
        row = store.get(self.key(*named))
        return None if row is None else self.value_of(row)

    def put(self, value: _T, *named: str | int, expect: Expectation | None = None) -> Put:
        """Return the write of a value to the row with the key of *named*, on condition of *expect*."""
        return Put(self.key(*named), self.row_of(value), expect or {})
