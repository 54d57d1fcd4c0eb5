"""The tests of a cell: each returns the bits of the entries that a message still can match.

These are the entries whose term holds and the entries without such a term (``free``). Values and places come as in a
snapshot (:class:`tagcast.filters.sql92.columns.Columns`) and become bits when a message first needs them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from tagcast.filters.sql92.readings import TEXT, Dimension, PropertyReadings, Reading, from_row
from tagcast.filters.sql92.terms import (
    ABOVE,
    ANY,
    AT_LEAST,
    AT_MOST,
    BOUNDS,
    CONTAINS,
    ENDS,
    LIKE,
    MISSING,
    NONE,
    NOT,
    PRESENT,
    STARTS,
    search_of,
)

Bits = Callable[[PropertyReadings], int]
_STEP = 8
_REMEMBERED_MAX = 128
_ONE = ord("1")


def bits_of(places: Sequence[int], count: int) -> int:
    """Return an integer of ``count`` bits in which the bits at *places* are set.

    >>> bits_of([0, 3], 4), bits_of([], 4), bits_of(range(20), 20) == (1 << 20) - 1
    (9, 0, True)
    """
    if len(places) < _STEP:
        bits = 0
        for place in places:
            bits |= 1 << place
        return bits
    digits = bytearray(b"0") * count
    for place in places:
        digits[~place] = _ONE
    return int(digits, 2)


class Hits:
    """The values of one column, each with its remaining bits, and the bits for any other value."""

    __slots__ = ("_count", "_places", "free", "ready")

    def __init__(self, values: Sequence[Reading], places: Sequence[list[int]], count: int) -> None:
        self.free = free_of(list(chain.from_iterable(places)), count)
        self._count = count
        self._places: dict[Reading | None, list[int]] = dict(zip(values, places, strict=True))
        self.ready: dict[Reading | None, int] = {}

    def bits(self, value: Reading | None) -> int:
        """Return the bits that remain for a value, or for a missing property (None)."""
        found = self.ready.get(value)
        if found is None:
            places = self._places.get(value)
            if places is None:
                return self.free
            found = self.ready[value] = self.free | bits_of(places, self._count)
        return found


def free_of(places: Sequence[int], count: int) -> int:
    """Return ``count`` bits; all bits are set except the bits at *places*."""
    return (1 << count) - 1 & ~bits_of(places, count)


def test_of(kind: str, name: str, test: str, values: Any, places: Any, count: int) -> Bits:
    """Return the test of one column of a cell of ``count`` entries."""
    return _TESTS[test](Dimension(kind, name), values, places, count)


def _any(dimension: Dimension, values: Any, places: Any, count: int) -> Bits:
    hits = Hits(_readings(dimension, values), places, count)
    return lambda view: hits.bits(view.get(dimension))


def _none(dimension: Dimension, values: Any, places: Any, count: int) -> Bits:
    hits = Hits(_readings(dimension, values), places, count)
    free, every = hits.free, (1 << count) - 1

    def bits(view: PropertyReadings) -> int:
        value = view.get(dimension)
        # Excluded values: every entry with such a term remains, except those found by the value.
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
    """Return the test of sorted bounds. A value satisfies the first or the last of these bounds."""
    lower = test in (ABOVE, AT_LEAST)
    bisect = bisect_left if test in (ABOVE, AT_MOST) else bisect_right

    def make(dimension: Dimension, values: Any, places: Any, count: int) -> Bits:
        floats = list(map(float, values))
        free = free_of(places, count)
        steps = _prefixes(places, free if lower else (1 << count) - 1)
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
            step = (last + _STEP // 2) // _STEP
            found = steps[step]
            for place in places[step * _STEP : last] or places[last : step * _STEP]:
                found ^= 1 << place
            if len(remembered) >= _REMEMBERED_MAX:
                remembered.clear()
            remembered[value] = found
            return found

        return bits

    return make


def _prefixes(places: Sequence[int], bits: int) -> list[int]:
    """Return cumulative bits at every ``_STEP``-th bound."""
    steps = [bits]
    for first in range(0, len(places), _STEP):
        for place in places[first : first + _STEP]:
            bits ^= 1 << place
        steps.append(bits)
    return steps


def _searched(test: str) -> Callable[[Dimension, Any, Any, int], Bits]:
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
    asked = [(search_of(search, values), bits) for values, bits in hits.items()]
    return lambda text: _union([bits for holds, bits in asked if holds(text)])


def _by_length(search: str, hits: Mapping[tuple[str, ...], int]) -> Callable[[str], int]:
    """Return a lookup of prefixes or suffixes. It has one table for each of their lengths."""
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
        prefix + search: _searched(prefix + search) for search in (STARTS, ENDS, CONTAINS, LIKE) for prefix in ("", NOT)
    },
}
