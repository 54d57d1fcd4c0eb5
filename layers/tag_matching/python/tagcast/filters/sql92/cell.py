"""Entries with the same key, evaluated together: one bit for each entry, one test for each property and comparison."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from tagcast.filters.sql92.cell_tests import Bits, Hits, bits_of, test_of
from tagcast.filters.sql92.columns import Columns, columns_of
from tagcast.filters.sql92.entry import SqlEntry
from tagcast.filters.sql92.readings import TEXT, PropertyReadings, Reading
from tagcast.filters.sql92.terms import ANY
from tagcast.filters.sql92.whole import FullExpression

CELL_MAX = 4_096
ONE_BY_ONE_MAX = 3
_FEW_BITS = 8
_ONES = bytes.maketrans(b"01", b"\x00\x01")
_CELL, _HANDFUL = 1, 0


class SqlCell:
    """At most :data:`CELL_MAX` entries, tested together."""

    __slots__ = (
        "_all",
        "_always",
        "_below",
        "_crowds",
        "_firsts",
        "_partial",
        "_shared",
        "_tests",
        "_texts",
        "_unsure",
    )

    def __init__(self, columns: Columns, wholes: Sequence[FullExpression]) -> None:
        self._always, below, self._firsts, crowds, partial, tests = columns
        count = len(self._firsts)
        self._all = (1 << count) - 1
        self._below = list(below.items())
        self._crowds = dict(crowds)
        self._shared = bits_of(list(self._crowds), count)
        self._partial = {place: wholes[number] for place, number in partial}
        self._unsure = bits_of(list(self._partial), count)
        # Test texts first and inline, because most tests read a text.
        self._texts: list[tuple[str, dict[Reading | None, int], Hits]] = []
        self._tests: list[Bits] = []
        for kind, name, test, values, places in tests:
            if kind == TEXT and test == ANY:
                hits = Hits(values, places, count)
                self._texts.append((name, hits.ready, hits))
            else:
                self._tests.append(test_of(kind, name, test, values, places, count))

    def match(self, view: PropertyReadings, found: list[int]) -> None:
        """Add to *found* the ordinals of the subscriptions whose expression is TRUE."""
        texts = view.texts
        if self._always:
            found += self._always
        # No key is None, so a missing property finds nothing.
        for name, by_text in self._below:
            owners = by_text.get(texts.get(name))
            if owners is not None:
                found += owners
        bits = self._all
        for name, ready, hits in self._texts:
            if not bits:
                return
            text = texts.get(name)
            mask = ready.get(text)
            bits &= hits.bits(text) if mask is None else mask
        for test in self._tests:
            if not bits:
                return
            bits &= test(view)
        if bits:
            self._add(bits, texts, found)

    def _add(self, bits: int, texts: Mapping[str, str], found: list[int]) -> None:
        if bits & self._unsure:
            for place in _places(bits & self._unsure):
                if not self._partial[place].is_true(texts):
                    bits ^= 1 << place
        firsts = self._firsts
        if bits.bit_count() > _FEW_BITS:
            found.extend(compress(firsts, bin(bits)[:1:-1].encode().translate(_ONES)))
        else:
            for place in _places(bits):
                found.append(firsts[place])
        if bits & self._shared:
            for place in _places(bits & self._shared):
                found += self._crowds[place]


def _places(bits: int) -> Iterator[int]:
    while bits:
        place = bits.bit_length() - 1
        yield place
        bits ^= 1 << place


class SqlList:
    """Entries too few for a cell, evaluated one by one."""

    __slots__ = ("_always", "_asked", "_wholes")

    def __init__(self, entries: Sequence[SqlEntry], wholes: Sequence[FullExpression]) -> None:
        self._always: list[int] = []
        self._asked: list[SqlEntry] = []
        self._wholes = wholes
        for entry in entries:
            if entry.terms or entry.whole is not None:
                self._asked.append(entry)
            else:
                self._always += entry.owners

    def match(self, view: PropertyReadings, found: list[int]) -> None:
        """Add to *found* the ordinals of the subscriptions whose expression is TRUE."""
        found += self._always
        for owners, terms, whole in self._asked:
            for term in terms:
                if not term.holds(view.get(term.dimension)):
                    break
            else:
                if whole is None or self._wholes[whole].is_true(view.texts):
                    found += owners


def cell_rows(entries: Sequence[SqlEntry]) -> list[Any]:
    """Return entries as the plain lists of cells. Entries are sorted by their properties if they fill several cells."""
    if len(entries) <= ONE_BY_ONE_MAX:
        return [[_HANDFUL, *(entry.as_row() for entry in entries)]]
    if len(entries) > CELL_MAX:
        entries = sorted(entries, key=lambda entry: sorted({term.dimension for term in entry.terms}))
    parts = (entries[first : first + CELL_MAX] for first in range(0, len(entries), CELL_MAX))
    return [[_CELL, *columns_of(part)] for part in parts]


def cells_of(rows: Iterable[Sequence[Any]], wholes: Sequence[FullExpression]) -> tuple[SqlCell | SqlList, ...]:
    """Restore the cells of :func:`cell_rows`."""
    return tuple(
        SqlCell(Columns(*rest), wholes) if kind == _CELL else SqlList([SqlEntry.from_row(*row) for row in rest], wholes)
        for kind, *rest in rows
    )
