"""Some expressions that one key has found, asked together: one bit for each, one test for each property and test.

A test answers with the bits of all entries that it leaves in: those whose term holds, and those without such a term.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import compress

from tagcast.filters.sql92.entry import Entry
from tagcast.filters.sql92.readings import TEXT, Dimension, MessageView, Reading, float_of
from tagcast.filters.sql92.terms import ABOVE, ANY, AT_LEAST, AT_MOST, BELOW, BOUNDS, MISSING, NONE, PRESENT, Term

CELL_MAX = 4_096
ONE_BY_ONE_MAX = 3
_FEW_BITS = 8
_FEW_OWNERS = 8
_STEP = 16
_ONES = bytes.maketrans(b"01", b"\x00\x01")
_Bits = Callable[[MessageView], int]
_Wanted = list[tuple[int, tuple[Reading, ...]]]
"""Entries of a cell with the values of their term."""


class Cell:
    """At most :data:`CELL_MAX` entries, tested together."""

    __slots__ = ("_all", "_entries", "_firsts", "_partial", "_shared", "_tests")

    def __init__(self, entries: Sequence[Entry]) -> None:
        rows = [(owner, entry) for entry in entries for owner in _single(entry)]
        self._entries = [entry for _, entry in rows]
        self._firsts = [owner for owner, _ in rows]
        self._all = (1 << len(rows)) - 1
        self._partial = 0
        self._shared = 0
        wanted: dict[tuple[Dimension, str], _Wanted] = {}
        for place, entry in enumerate(self._entries):
            self._partial |= entry.is_partial << place
            self._shared |= (len(entry.owners) > _FEW_OWNERS) << place
            for (dimension, test), values in _merged(entry.residual()).items():
                wanted.setdefault((dimension, test), []).append((place, values))
        ordered = sorted(wanted.items(), key=lambda item: _ORDER.index(item[0][1]))
        self._tests: list[_Bits] = [
            _TESTS[test](dimension, rows, self._all & ~_bits_of(place for place, _ in rows), self._all)
            for (dimension, test), rows in ordered
        ]

    def match(self, view: MessageView, found: list[int]) -> None:
        """Add the owners of all entries that are TRUE."""
        bits = self._all
        for test in self._tests:
            bits &= test(view)
            if not bits:
                return
        if bits & self._partial:
            bits = self._confirmed(bits, view)
        if bits.bit_count() <= _FEW_BITS:
            for place in _places(bits):
                found.append(self._firsts[place])
        else:
            found.extend(compress(self._firsts, bin(bits)[:1:-1].encode().translate(_ONES)))
        for place in _places(bits & self._shared):
            found.extend(self._entries[place].owners[1:])

    def _confirmed(self, bits: int, view: MessageView) -> int:
        for place in _places(bits & self._partial):
            if not self._entries[place].is_true(view.texts):
                bits ^= 1 << place
        return bits


class Handful:
    """Entries too few for tests together: they are asked one by one."""

    __slots__ = ("_always", "_asked")

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._always: list[int] = []
        self._asked: list[tuple[tuple[Term, ...], Entry]] = []
        for entry in entries:
            residual = entry.residual()
            if residual or entry.is_partial:
                self._asked.append((residual, entry))
            else:
                self._always += entry.owners

    def match(self, view: MessageView, found: list[int]) -> None:
        """Add the owners of all entries that are TRUE."""
        found += self._always
        for residual, entry in self._asked:
            for term in residual:
                if not term.holds(view.get(term.dimension)):
                    break
            else:
                if not entry.is_partial or entry.is_true(view.texts):
                    found += entry.owners


def cells_of(entries: Sequence[Entry]) -> tuple[Cell | Handful, ...]:
    """The entries in cells; what tests the same properties stands together."""
    if len(entries) <= ONE_BY_ONE_MAX:
        return (Handful(entries),)
    if len(entries) > CELL_MAX:
        entries = sorted(entries, key=lambda entry: sorted({term.dimension for term in entry.residual()}))
    return tuple(Cell(entries[first : first + CELL_MAX]) for first in range(0, len(entries), CELL_MAX))


def _single(entry: Entry) -> Sequence[int]:
    """The owners that have a bit of their own: all of a few, else the first for all."""
    return entry.owners if len(entry.owners) <= _FEW_OWNERS else entry.owners[:1]


def _merged(terms: Iterable[Term]) -> dict[tuple[Dimension, str], tuple[Reading, ...]]:
    """One term for each property and test."""
    merged: dict[tuple[Dimension, str], tuple[Reading, ...]] = {}
    for dimension, test, values in terms:
        key = dimension, test
        known = merged.get(key)
        if known is None:
            merged[key] = values
        elif test == ANY:
            merged[key] = tuple(value for value in known if value in values)
        elif test == NONE:
            merged[key] = known + values
        elif test in BOUNDS:
            merged[key] = (max if test in (ABOVE, AT_LEAST) else min)(known, values)
    return merged


def _bits_of(places: Iterable[int]) -> int:
    bits = 0
    for place in places:
        bits |= 1 << place
    return bits


def _places(bits: int) -> Iterable[int]:
    while bits:
        place = bits.bit_length() - 1
        yield place
        bits ^= 1 << place


def _values(rows: _Wanted) -> dict[Reading, int]:
    bits: dict[Reading, int] = {}
    for place, values in rows:
        for value in values:
            bits[value] = bits.get(value, 0) | 1 << place
    return bits


def _any(dimension: Dimension, rows: _Wanted, free: int, _: int) -> _Bits:
    hits = {value: bits | free for value, bits in _values(rows).items()}
    name = dimension.name
    if dimension.kind == TEXT:
        # No key is None, so that a missing property leaves what has no such term.
        return lambda view: hits.get(view.texts.get(name), free)  # type: ignore[arg-type]

    def bits(view: MessageView) -> int:
        value = view.get(dimension)
        return free if value is None else hits.get(value, free)

    return bits


def _none(dimension: Dimension, rows: _Wanted, free: int, every: int) -> _Bits:
    left = {value: every & ~bits for value, bits in _values(rows).items()}

    def bits(view: MessageView) -> int:
        value = view.get(dimension)
        return free if value is None else left.get(value, every)

    return bits


def _missing(dimension: Dimension, _: _Wanted, free: int, every: int) -> _Bits:
    return lambda view: free if dimension.name in view.texts else every


def _present(dimension: Dimension, _: _Wanted, free: int, every: int) -> _Bits:
    return lambda view: every if dimension.name in view.texts else free


def _beside(test: str) -> Callable[[Dimension, _Wanted, int, int], _Bits]:
    """Bounds in order: those that a value is beside are the first ones or the last ones."""
    lower = test in (ABOVE, AT_LEAST)
    bisect = bisect_left if test in (ABOVE, AT_MOST) else bisect_right

    def make(dimension: Dimension, rows: _Wanted, free: int, _: int) -> _Bits:
        bounds = sorted((float_of(values[0]), values[0], place) for place, values in rows)
        floats = [near for near, _, _ in bounds]
        exact = [bound for _, bound, _ in bounds]
        masks = [1 << place for _, _, place in bounds]
        steps = _prefixes(masks, free, lower)

        def bits(view: MessageView) -> int:
            value = view.get(dimension)
            if value is None:
                return free
            near = view.nearest(dimension, value)
            count = bisect(floats, near)
            if near in floats[count - 1 if count else 0 : count + 1]:
                count = bisect(exact, value, bisect_left(floats, near), bisect_right(floats, near))
            step = count // _STEP
            found = steps[step]
            for mask in masks[step * _STEP : count]:
                found ^= mask
            return found

        return bits

    return make


def _prefixes(masks: list[int], free: int, lower: bool) -> list[int]:
    """The bits that are left by the first bounds, at every so many bounds."""
    bits = free if lower else free | _union(masks)
    steps = [bits]
    for place, mask in enumerate(masks, 1):
        bits ^= mask
        if place % _STEP == 0:
            steps.append(bits)
    return steps


def _union(masks: Iterable[int]) -> int:
    bits = 0
    for mask in masks:
        bits |= mask
    return bits


_ORDER = (ANY, MISSING, PRESENT, ABOVE, AT_LEAST, BELOW, AT_MOST, NONE)
_TESTS: dict[str, Callable[[Dimension, _Wanted, int, int], _Bits]] = {
    ANY: _any,
    NONE: _none,
    MISSING: _missing,
    PRESENT: _present,
    **{test: _beside(test) for test in BOUNDS},
}
