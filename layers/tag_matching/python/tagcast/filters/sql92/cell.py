"""Entries with the same lookup key, tested together: a bit for each entry, a test for each property and comparison."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple

from tagcast.bits import flags_of
from tagcast.filters.sql92.entry import SqlEntry
from tagcast.filters.sql92.expression import CompiledExpression
from tagcast.filters.sql92.readings import TEXT, Dimension, PropertyReadings, Reading, as_row, float_of, from_row
from tagcast.filters.sql92.terms import (
    ABOVE,
    ANY,
    AT_LEAST,
    AT_MOST,
    BELOW,
    BOUNDS,
    CONTAINS,
    ENDS,
    LIKE,
    MISSING,
    NONE,
    NOT,
    PRESENT,
    STARTS,
    Term,
    is_search,
    search_of,
)

_FEW_OWNERS = 8
_Column = tuple[Dimension, str, int]
"""A property, a test, and a number that distinguishes repeated tests of one entry."""
_Asked = list[tuple[int, tuple[Reading, ...]]]
"""Pairs of a place and the values of its term."""
_ORDER = (ANY, MISSING, PRESENT, ABOVE, AT_LEAST, BELOW, AT_MOST, NONE)


class Columns(NamedTuple):
    """The entries of a cell as plain lists. An entry has a bit for each owner, or one bit if it has many owners.

    A place is the position of a bit.

    - *always*: the owners of entries that always match.
    - *below*: property → text → owners, of entries that only compare one property with texts. They have no bits.
    - *first_owners*: the owner at each place.
    - *further_owners*: for each entry with many owners, its place and the owners after the first.
    - *partial*: each place whose entry needs its full expression, with the expression's number.
    - *tests*: for each test, kind and name of its dimension, the comparison, its values, and the places of each value.
    """

    always: list[int]
    below: dict[str, dict[str | None, list[int]]]
    first_owners: list[int]
    further_owners: list[tuple[int, list[int]]]
    partial: list[tuple[int, int]]
    tests: list[tuple[str, str, str, Any, Any]]


def columns_of(entries: Iterable[SqlEntry]) -> Columns:
    """Return *entries* as the columns of one cell.

    >>> term = Term(Dimension("number", "a"), "above", (5,))
    >>> columns_of([SqlEntry([7], (), None), SqlEntry([8], (term,), None)])[2:]
    ([8], [], [], [('number', 'a', 'above', [5], [0])])
    """
    columns = Columns([], {}, [], [], [], [])
    by_column: dict[_Column, _Asked] = {}
    for entry in entries:
        terms = merge_terms(entry.terms)
        if any(column[1] == ANY and not values for column, values in terms.items()):
            continue  # No property has two values at once, so the entry never matches.
        text = _only_text(terms) if entry.whole is None else None
        if entry.whole is None and not terms:
            columns.always.extend(entry.owners)
        elif text is not None:
            below = columns.below.setdefault(text, {})
            for values in terms.values():
                for value in values:
                    below.setdefault(str(value), []).extend(entry.owners)
        else:
            _place(columns, entry, terms, by_column)
    columns.tests.extend(_test(column, by_column[column]) for column in sorted(by_column, key=_turn))
    return columns


def merge_terms(terms: Sequence[Term]) -> dict[_Column, tuple[Reading, ...]]:
    """Return the values of *terms* by dimension, test and number. Terms such as ``a > 5 AND a > 7`` become one term.

    Several searches of the same kind in one property cannot be merged, so they get the numbers 0, 1, 2 and so on. The
    number of every other test is 0.

    >>> a = Dimension("number", "a")
    >>> merge_terms([Term(a, "above", (5,)), Term(a, "above", (7,)), Term(a, "none", (9,))])
    {(Dimension(kind='number', name='a'), 'above', 0): (7,), (Dimension(kind='number', name='a'), 'none', 0): (9,)}
    """
    found: dict[_Column, tuple[Reading, ...]] = {}
    counts: dict[tuple[Dimension, str], int] = {}
    for dimension, test, values in terms:
        key = dimension, test, 0
        known = found.get(key)
        if known is None:
            found[key] = values
        elif test == ANY:
            found[key] = tuple(value for value in known if value in values)
        elif test == NONE:
            found[key] = known + values
        elif test in BOUNDS:
            found[key] = (max if test in (ABOVE, AT_LEAST) else min)(known, values)
        elif is_search(test):
            count = counts[dimension, test] = counts.get((dimension, test), 0) + 1
            found[dimension, test, count] = values
    return found


def _only_text(terms: dict[_Column, tuple[Reading, ...]]) -> str | None:
    """Return the property if the only term compares its text with texts, otherwise None."""
    if len(terms) == 1:
        for (kind, name), test, _ in terms:
            if kind == TEXT and test == ANY:
                return name
    return None


def _turn(column: _Column) -> int:
    """Return the rank of a test: fast and selective tests come first."""
    return _ORDER.index(column[1]) if column[1] in _ORDER else len(_ORDER)


def _place(
    columns: Columns, entry: SqlEntry, terms: dict[_Column, tuple[Reading, ...]], by_column: dict[_Column, _Asked]
) -> None:
    """Add an entry to *columns* and *by_column*, with one bit for each owner, or a single bit if it has many owners."""
    many = len(entry.owners) > _FEW_OWNERS
    for owner in entry.owners[:1] if many else entry.owners:
        place = len(columns.first_owners)
        columns.first_owners.append(owner)
        if many:
            columns.further_owners.append((place, entry.owners[1:]))
        if entry.whole is not None:
            columns.partial.append((place, entry.whole))
        for column, values in terms.items():
            by_column.setdefault(column, []).append((place, values))


def _test(column: _Column, rows: _Asked) -> tuple[str, str, str, Any, Any]:
    (kind, name), test, _ = column
    if test in BOUNDS:
        rows = sorted(rows, key=lambda row: (float_of(row[1][0]), row[1][0]))
        return kind, name, test, [as_row(values[0]) for _, values in rows], [place for place, _ in rows]
    if test in (MISSING, PRESENT):
        return kind, name, test, [], [place for place, _ in rows]
    grouped: dict[Reading | tuple[Reading, ...], list[int]] = {}
    for place, values in rows:
        for value in [values] if is_search(test) else values:
            grouped.setdefault(value, []).append(place)
    shown = [list(value) if isinstance(value, tuple) else as_row(value) for value in grouped]
    return kind, name, test, shown, list(grouped.values())


Bits = Callable[[PropertyReadings], int]
"""A test of one property: returns the bits of possible matches for a message's properties."""
STEP = 8
_REMEMBERED_MAX = 128
_ONE = ord("1")


def bits_of(places: Sequence[int], count: int) -> int:
    """Return an integer of *count* bits in which the bits at *places* are set.

    >>> bits_of([0, 3], 4), bits_of([], 4), bits_of(range(20), 20) == (1 << 20) - 1
    (9, 0, True)
    """
    if len(places) < STEP:
        bits = 0
        for place in places:
            bits |= 1 << place
        return bits
    digits = bytearray(b"0") * count
    for place in places:
        digits[~place] = _ONE
    return int(digits, 2)


class Hits:
    """The values with which entries of a cell compare one property, and the bits of the entries with each value.

    *places* lists the positions of bits for each of *values*. *count* is the number of bits of the cell. *free* are the
    bits of the entries that do not have this test.
    """

    __slots__ = ("_count", "_places", "free", "ready")

    def __init__(self, values: Sequence[Reading], places: Sequence[list[int]], count: int) -> None:
        self.free = free_of(list(chain.from_iterable(places)), count)
        self._count = count
        self._places: dict[Reading | None, list[int]] = dict(zip(values, places, strict=True))
        self.ready: dict[Reading | None, int] = {}

    def bits(self, value: Reading | None) -> int:
        """Return the bits in *free* and the bits of the entries with *value*.

        *value* is None if the property is missing, or if its text cannot be read.
        """
        found = self.ready.get(value)
        if found is None:
            places = self._places.get(value)
            if places is None:
                return self.free
            found = self.ready[value] = self.free | bits_of(places, self._count)
        return found


def free_of(places: Sequence[int], count: int) -> int:
    """Return an integer of *count* bits, all set except the bits at *places*."""
    return (1 << count) - 1 & ~bits_of(places, count)


def _any(dimension: Dimension, values: Any, places: Any, count: int) -> Bits:
    hits = Hits(_readings(dimension, values), places, count)
    return lambda view: hits.bits(view.get(dimension))


def _none(dimension: Dimension, values: Any, places: Any, count: int) -> Bits:
    hits = Hits(_readings(dimension, values), places, count)
    free, every = hits.free, (1 << count) - 1

    def bits(view: PropertyReadings) -> int:
        value = view.get(dimension)
        # Every entry remains, except the entries that exclude this value.
        return free if value is None else every ^ (hits.bits(value) ^ free)

    return bits


def _readings(dimension: Dimension, values: Any) -> Sequence[Reading]:
    return values if dimension.kind == TEXT else [from_row(dimension.kind, value) for value in values]


def _missing(dimension: Dimension, _: Any, places: Any, count: int) -> Bits:
    free, every = free_of(places, count), (1 << count) - 1
    return lambda view: free if dimension.name in view.texts else every


def _present(dimension: Dimension, _: Any, places: Any, count: int) -> Bits:
    free, every = free_of(places, count), (1 << count) - 1
    return lambda view: every if dimension.name in view.texts else free


def _beside(test: str) -> Callable[[Dimension, Any, Any, int], Bits]:
    """Return a function that makes tests of sorted bounds. A value meets all bounds below it, or all above it."""
    lower = test in (ABOVE, AT_LEAST)
    bisect = bisect_left if test in (ABOVE, AT_MOST) else bisect_right

    def make(dimension: Dimension, values: Any, places: Any, count: int) -> Bits:
        floats = list(map(float, values))
        free = free_of(places, count)
        steps = cumulative_bits(places, free if lower else (1 << count) - 1)
        remembered: dict[Reading, int] = {}

        def bits(view: PropertyReadings) -> int:
            value = view.get(dimension)
            if value is None:
                return free
            found = remembered.get(value)
            if found is not None:
                return found
            near = view.nearest(dimension, value)
            last = bisect(floats, near)
            if near in floats[last - 1 if last else 0 : last + 1]:
                first, behind = bisect_left(floats, near), bisect_right(floats, near)
                last = bisect(values, value, first, behind, key=lambda row: from_row(dimension.kind, row))
            step = (last + STEP // 2) // STEP
            found = steps[step]
            for place in places[step * STEP : last] or places[last : step * STEP]:
                found ^= 1 << place
            if len(remembered) >= _REMEMBERED_MAX:
                remembered.clear()
            remembered[value] = found
            return found

        return bits

    return make


def cumulative_bits(places: Sequence[int], bits: int) -> list[int]:
    """Flip the bits at *places* one after the other. Return *bits*, and the bits after every ``STEP`` flips.

    The last item has the bits after all flips, even if the last step has fewer than ``STEP``.
    """
    steps = [bits]
    for first in range(0, len(places), STEP):
        for place in places[first : first + STEP]:
            bits ^= 1 << place
        steps.append(bits)
    return steps


def _searcher(test: str) -> Callable[[Dimension, Any, Any, int], Bits]:
    negated = test.startswith(NOT)
    search = test.removeprefix(NOT)
    finder = _by_length if search in (STARTS, ENDS) else _one_by_one

    def make(dimension: Dimension, values: Any, places: Any, count: int) -> Bits:
        found_in = finder(
            search, {tuple(value): bits_of(each, count) for value, each in zip(values, places, strict=True)}
        )
        free, every = free_of(list(chain.from_iterable(places)), count), (1 << count) - 1
        name = dimension.name

        def bits(view: PropertyReadings) -> int:
            text = view.texts.get(name)
            if text is None:
                return free
            return every & ~found_in(text) if negated else free | found_in(text)

        return bits

    return make


def _one_by_one(search: str, hits: Mapping[tuple[str, ...], int]) -> Callable[[str], int]:
    if search == CONTAINS:
        pairs = [(searched[0], bits) for searched, bits in hits.items()]
        return lambda text: _union([bits for searched, bits in pairs if searched in text])
    searches = [(search_of(search, values), bits) for values, bits in hits.items()]
    return lambda text: _union([bits for holds, bits in searches if holds(text)])


def _by_length(search: str, hits: Mapping[tuple[str, ...], int]) -> Callable[[str], int]:
    """Return a lookup of prefixes or suffixes, with one table for each length."""
    by_length: dict[int, dict[str, int]] = {}
    for (searched,), bits in hits.items():
        by_length.setdefault(len(searched), {})[searched] = bits
    lengths = sorted(by_length.items())

    def found_in(text: str) -> int:
        found, size = 0, len(text)
        for length, by_text in lengths:
            if length > size:
                break
            found |= by_text.get(text[:length] if search == STARTS else text[size - length :], 0)
        return found

    return found_in


def _union(masks: Sequence[int]) -> int:
    bits = 0
    for mask in masks:
        bits |= mask
    return bits


_TESTS: Mapping[str, Callable[[Dimension, Any, Any, int], Bits]] = {
    ANY: _any,
    NONE: _none,
    MISSING: _missing,
    PRESENT: _present,
    **{test: _beside(test) for test in BOUNDS},
    **{
        prefix + search: _searcher(prefix + search) for search in (STARTS, ENDS, CONTAINS, LIKE) for prefix in ("", NOT)
    },
}


CELL_MAX = 4_096
ONE_BY_ONE_MAX = 3
_FEW_BITS = 8
_CELL, _HANDFUL = 1, 0


class SqlCell:
    """At most :data:`CELL_MAX` entries, tested together.

    *wholes* are the full expressions to which the numbers in *columns* refer.
    """

    __slots__ = (
        "_all",
        "_always",
        "_below",
        "_first_owners",
        "_further_owners",
        "_partial",
        "_shared",
        "_tests",
        "_texts",
        "_unsure",
    )

    def __init__(self, columns: Columns, wholes: Sequence[CompiledExpression]) -> None:
        self._always, below, self._first_owners, further_owners, partial, tests = columns
        count = len(self._first_owners)
        self._all = (1 << count) - 1
        self._below = list(below.items())
        self._further_owners = dict(further_owners)
        self._shared = bits_of(list(self._further_owners), count)
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
                self._tests.append(_TESTS[test](Dimension(kind, name), values, places, count))

    def match(self, view: PropertyReadings, found: list[int]) -> None:
        """Add to *found* the owners of the entries that match."""
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
            for place in places_of(bits & self._unsure):
                if not self._partial[place].is_true(texts):
                    bits ^= 1 << place
        first_owners = self._first_owners
        if bits.bit_count() > _FEW_BITS:
            found.extend(compress(first_owners, flags_of(bits)))
        else:
            for place in places_of(bits):
                found.append(first_owners[place])
        if bits & self._shared:
            for place in places_of(bits & self._shared):
                found += self._further_owners[place]


def places_of(bits: int) -> Iterator[int]:
    """Yield the positions of the set bits, in no particular order."""
    if bits.bit_count() > 16:
        digits = bin(bits)[:1:-1]
        place = digits.find("1")
        while place >= 0:
            yield place
            place = digits.find("1", place + 1)
        return
    while bits:
        place = bits.bit_length() - 1
        yield place
        bits ^= 1 << place


class SqlList:
    """A few entries, which are evaluated one by one. More entries are in a :class:`SqlCell`.

    *wholes* are the full expressions to which the numbers in *entries* refer.
    """

    __slots__ = ("_always", "_asked", "_wholes")

    def __init__(self, entries: Sequence[SqlEntry], wholes: Sequence[CompiledExpression]) -> None:
        self._always: list[int] = []
        self._asked: list[SqlEntry] = []
        self._wholes = wholes
        for entry in entries:
            if entry.terms or entry.whole is not None:
                self._asked.append(entry)
            else:
                self._always += entry.owners

    def match(self, view: PropertyReadings, found: list[int]) -> None:
        """Add to *found* the owners of the entries that match."""
        found += self._always
        for owners, terms, whole in self._asked:
            for term in terms:
                if not term.holds(view.get(term.dimension)):
                    break
            else:
                if whole is None or self._wholes[whole].is_true(view.texts):
                    found += owners


def cell_rows(entries: Sequence[SqlEntry]) -> list[Any]:
    """Return *entries* as plain lists, one for each cell. If they fill several cells, they are sorted by dimension."""
    if len(entries) <= ONE_BY_ONE_MAX:
        return [[_HANDFUL, *(entry.as_row() for entry in entries)]]
    if len(entries) > CELL_MAX:
        entries = sorted(entries, key=lambda entry: sorted({term.dimension for term in entry.terms}))
    parts = (entries[first : first + CELL_MAX] for first in range(0, len(entries), CELL_MAX))
    return [[_CELL, *columns_of(part)] for part in parts]


def cells_of(rows: Iterable[Sequence[Any]], wholes: Sequence[CompiledExpression]) -> tuple[SqlCell | SqlList, ...]:
    """Restore the cells in *rows* (:func:`cell_rows`). *wholes* are the full expressions to which numbers refer."""
    return tuple(
        SqlCell(Columns(*rest), wholes) if kind == _CELL else SqlList([SqlEntry.from_row(*row) for row in rest], wholes)
        for kind, *rest in rows
    )
