"""The words in which the core speaks of its two tables: keys, rows, conditional writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, TypeVar

T = TypeVar("T")
Value = str | int | bytes | Mapping[str, str] | Sequence[str] | None
Row = Mapping[str, Value]


class Absence(Enum):
    """That a row has no such attribute, in an expectation."""

    ABSENT = "absent"


ABSENT: Final = Absence.ABSENT
Expectation = Mapping[str, Value | Absence]
"""What attributes of a row have to be for a write to happen."""


class Table(StrEnum):
    """The two tables of the service (docs/architecture.md, Tables)."""

    REGISTRY = "registry"
    MESSAGES = "messages"


@dataclass(frozen=True, slots=True)
class Key:
    """The full key of one row."""

    table: Table
    pk: str
    sk: str


@dataclass(frozen=True, slots=True)
class Put:
    """Write a whole row, if every attribute in *expect* is as given (ABSENT = not there)."""

    key: Key
    row: Row
    expect: Expectation = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Update:
    """Set and remove attributes of one row, and add to numbers (0 if not there), under the same kind of condition.

    Adding is no repeatable write: after an accident it may be done twice, so it is for statistics only.
    """

    key: Key
    changes: Row
    remove: tuple[str, ...] = ()
    expect: Expectation = field(default_factory=dict)
    add: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove one row; removing what is not there succeeds unless *expect* says otherwise."""

    key: Key
    expect: Expectation = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, but let the transaction fail unless *expect* holds."""

    key: Key
    expect: Expectation


Write = Put | Update | Delete | Check


@dataclass(frozen=True, slots=True)
class Found:
    """Messages that a part of a search found, as rows without bodies, and where it goes on (None: it is over)."""

    rows: tuple[Row, ...]
    cursor: str | None = None


def fitting(items: Sequence[T], most: int, bytes_max: int, bytes_of: Callable[[T], int]) -> Iterator[Sequence[T]]:
    """Split *items* into what fits into one transaction each: at most *most*, and *bytes_max* unless it is only one.

    >>> list(fitting(["a", "b", "cccc", "d", "e", "f"], 2, 3, len))
    [['a', 'b'], ['cccc'], ['d', 'e'], ['f']]
    """
    began, size = 0, 0
    for place, item in enumerate(items):
        if place - began == most or (place > began and size + bytes_of(item) > bytes_max):
            yield items[began:place]
            began, size = place, 0
        size += bytes_of(item)
    if began < len(items):
        yield items[began:]
