"""The vocabulary of the two tables: keys, rows, conditional writes, and the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, Generic, Protocol, TypeVar

T = TypeVar("T")
Value = str | int | bytes | Mapping[str, str] | Sequence[str] | None
Row = Mapping[str, Value]
UPDATES_MAX = 25
"""At most 25 updates share a request, each with its own condition."""


class Absence(Enum):
    """The type of ABSENT. In the condition of a write, ABSENT requires that the attribute is missing."""

    ABSENT = "absent"


ABSENT: Final = Absence.ABSENT
Expectation = Mapping[str, Value | Absence]
"""The condition of a write: attributes of the stored row, with the values that they must have."""


class Table(StrEnum):
    """The two tables of the service (docs/tables.md)."""

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
    """Write a whole row, if the stored row has the values in *expect*.

    The value ABSENT requires that the attribute is missing.
    """

    key: Key
    row: Row
    expect: Expectation = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Update:
    """Set *changes* and remove attributes of one row, on the same condition as :class:`Put`.

    *add* has the numbers to add to attributes; a missing attribute counts as 0. A retry may add twice, so use additions
    for statistics only.
    """

    key: Key
    changes: Row
    remove: tuple[str, ...] = ()
    expect: Expectation = field(default_factory=dict)
    add: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete one row. Deleting a missing row succeeds unless *expect* says otherwise."""

    key: Key
    expect: Expectation = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, but fail the transaction unless *expect* holds."""

    key: Key
    expect: Expectation


Write = Put | Update | Delete | Check


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Items of a list or a search, and the cursor of the next page; None at the last page."""

    items: tuple[T, ...]
    cursor: str | None = None


class Store(Protocol):
    """The port to the two tables, with conditional and transactional writes.

    Every read is strongly consistent except :meth:`lanes_to_wake` and :meth:`search`. Returned rows have ``pk`` and
    ``sk``. A write with a failed condition raises ``ConditionLostError`` and writes nothing. Its subclass
    ``ContendedError`` means that other transactions blocked the rows, and ``TableThrottledError`` that the table is
    throttled. After each of these errors, the caller reads again and retries.
    """

    def get(self, key: Key) -> Row | None:
        """Return the row, or None."""

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Row]:
        """Return the existing rows of at most 100 keys."""

    def query(
        self,
        table: Table,
        pk: str,
        *,
        sk_from: str = "",
        sk_to: str = "\U0010ffff",
        limit: int | None = None,
    ) -> list[Row]:
        """Return the rows of *pk* with ``sk_from <= sk <= sk_to`` in order of ``sk``; at most *limit* rows."""

    def lanes_to_wake(self, shard: int, limit: int, *, after: Row | None = None) -> list[Row]:
        """Return at most *limit* rows of lanes of a shard that have a ``wake_at``, earliest first.

        *after* is the last row of the previous call. The read is eventually consistent.
        """

    def search(self, *, open_before: int, over_before: int, cursor: str | None) -> Page[Row]:
        """Read the next part of all messages, from *cursor* on; return the messages that the sweep may have to repair.

        Such a message was accepted before *open_before* and has an open first round. Or it expired before
        *over_before*, and is pending or still has a body. Both instants are in milliseconds. The read is eventually
        consistent.
        """

    def find_kept(
        self, topic: str, *, accepted_from: int, before_version: int, alive_at: int, cursor: str | None
    ) -> Page[Row]:
        """Read the next part of all messages; return the messages of *topic* with a body, without replays.

        They were accepted at *accepted_from* or later, by a publish that read a topic version before *before_version*.
        They have not expired at *alive_at*. The read is strongly consistent. Use only ``message_id`` of the rows.
        """

    def write(self, write: Write) -> None:
        """Apply one conditional write."""

    def update_each(self, updates: Sequence[Update]) -> list[bool]:
        """Apply at most 25 updates of distinct rows; return for each whether it succeeded.

        Each update needs a condition and must have no additions. Repeat a failed update with :meth:`write`, which
        raises the reason.
        """

    def transact(self, writes: Sequence[Write]) -> None:
        """Apply all *writes* (at most 100, on distinct rows), or none of them."""


def fitting(items: Sequence[T], most: int, bytes_max: int, bytes_of: Callable[[T], int]) -> Iterator[Sequence[T]]:
    """Split *items* into parts of at most *most* items and *bytes_max* bytes; a larger item is a part of its own.

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
