"""The words in which the core speaks of its two tables: keys, rows, conditional writes, and the store that has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, Protocol, TypeVar

T = TypeVar("T")
Value = str | int | bytes | Mapping[str, str] | Sequence[str] | None
Row = Mapping[str, Value]
UPDATES_MAX = 25
"""At most 25 updates travel in one request, each with its own condition."""


class Absence(Enum):
    """That a row has no such attribute, in an expectation."""

    ABSENT = "absent"


ABSENT: Final = Absence.ABSENT
Expectation = Mapping[str, Value | Absence]
"""What attributes of a row have to be for a write to happen."""


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


class Store(Protocol):
    """A table with conditional and transactional writes; the truth of the service.

    Every read is strongly consistent except :meth:`lanes_to_wake` and :meth:`search`. Rows come back without their
    keys' table, but with ``pk`` and ``sk``. A lost condition raises ``ConditionLostError`` and writes nothing; so does
    a write that others' transactions on the same rows kept out (``ContendedError``): both are tried again after a new
    look.
    """

    def get(self, key: Key) -> Row | None:
        """Return the row, or None."""

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Row]:
        """Return those of the rows that exist (at most 100 keys)."""

    def query(
        self,
        table: Table,
        pk: str,
        *,
        sk_from: str = "",
        sk_to: str = "\U0010ffff",
        limit: int | None = None,
    ) -> list[Row]:
        """Return the rows of *pk* with ``sk_from <= sk <= sk_to`` in order of ``sk``; all pages up to *limit*."""

    def lanes_to_wake(self, shard: int, until: int, limit: int, *, after: Row | None = None) -> list[Row]:
        """Return lane rows of a shard with ``wake_at <= until``, earliest first; eventually consistent.

        *after* is the last row of the page before.
        """

    def search(self, *, open_before: int, over_before: int, cursor: str | None) -> Found:
        """Read the next part of all messages; return what is owed of them without anybody at work on it.

        That is: first rounds that are open although their message was accepted before *open_before*, and messages
        that are owed to somebody, or keep their body, although their life was over before *over_before*. Eventually
        consistent.
        """

    def kept(self, topic: str, *, accepted_from: int, before_version: int, alive_at: int, cursor: str | None) -> Found:
        """Read the next part of all messages; return those of *topic* that have a body, by their ids.

        They were accepted at *accepted_from* or later, by a publish that saw a version of the topic before
        *before_version*, live at *alive_at*, and are no replays. What was stored before the call is found.
        """

    def write(self, write: Write) -> None:
        """Apply one conditional write."""

    def update_each(self, updates: Sequence[Update]) -> list[bool]:
        """Apply each update (at most 25, no row twice, none that adds or expects nothing); say which were applied.

        An update that was not has to be tried alone: :meth:`write` says why.
        """

    def transact(self, writes: Sequence[Write]) -> None:
        """Apply all (at most 100, no row twice) or none."""


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
