"""Entries with the same key, by property instead of by entry: the data of a cell, ready for JSON.

An entry with few owners has one bit for each owner. An entry with many owners has a single bit. ``places`` are
positions of bits. An entry that only requires one of some values of one text property has no bit. It is stored below
each of these values.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tagcast.filters.sql92.entry import SqlEntry
from tagcast.filters.sql92.readings import TEXT, Dimension, Reading, as_row, float_of
from tagcast.filters.sql92.terms import (
    ABOVE,
    ANY,
    AT_LEAST,
    AT_MOST,
    BELOW,
    BOUNDS,
    MISSING,
    NONE,
    PRESENT,
    Term,
    is_search,
)

_FEW_OWNERS = 8
_Column = tuple[Dimension, str, int]
"""A property, a test, and a number that separates repeated tests of one entry."""
_Asked = list[tuple[int, tuple[Reading, ...]]]
"""Places, each with the values of its term."""
_ORDER = (ANY, MISSING, PRESENT, ABOVE, AT_LEAST, BELOW, AT_MOST, NONE)


class Columns(NamedTuple):
    """The entries of a cell as plain lists. A place is the position of a bit.

    - ``always``: the owners of entries that always match.
    - ``below``: property → text → owners.
    - ``firsts``: the owner at each place.
    - ``crowds``: for each entry with many owners, its place and the owners after the first.
    - ``partial``: each place whose entry needs its full expression, with the index of the expression.
    - ``tests``: for each test, how the text is read, the property, the test, its values, and the places of each value.
    """

    always: list[int]
    below: dict[str, dict[str | None, list[int]]]
    firsts: list[int]
    crowds: list[tuple[int, list[int]]]
    partial: list[tuple[int, int]]
    tests: list[tuple[str, str, str, Any, Any]]


def columns_of(entries: Iterable[SqlEntry]) -> Columns:
    """Return the index entries of SQL filters as columns.

    >>> term = Term(Dimension("number", "a"), "above", (5,))
    >>> columns_of([SqlEntry([7], (), None), SqlEntry([8], (term,), None)])[2:]
    ([8], [], [], [('number', 'a', 'above', [5], [0])])
    """
    columns = Columns([], {}, [], [], [], [])
    asked: dict[_Column, _Asked] = {}
    for entry in entries:
        terms = merge_terms(entry.terms)
        if any(column[1] == ANY and not values for column, values in terms.items()):
            continue  # Nothing has two values at once.
        text = _only_text(terms) if entry.whole is None else None
        if entry.whole is None and not terms:
            columns.always.extend(entry.owners)
        elif text is not None:
            below = columns.below.setdefault(text, {})
            for values in terms.values():
                for value in values:
                    below.setdefault(str(value), []).extend(entry.owners)
        else:
            _place(columns, entry, terms, asked)
    columns.tests.extend(_test(column, asked[column]) for column in sorted(asked, key=_turn))
    return columns


def merge_terms(terms: Sequence[Term]) -> dict[_Column, tuple[Reading, ...]]:
    """Merge terms with the same property and test where one term can express several.

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
    """Return the property whose text is the only condition, or None."""
    if len(terms) == 1:
        for (kind, name), test, _ in terms:
            if kind == TEXT and test == ANY:
                return name
    return None


def _turn(column: _Column) -> int:
    """Return the rank of a test: fast and selective tests come first."""
    return _ORDER.index(column[1]) if column[1] in _ORDER else len(_ORDER)


def _place(
    columns: Columns, entry: SqlEntry, terms: dict[_Column, tuple[Reading, ...]], asked: dict[_Column, _Asked]
) -> None:
    """Give an entry its bits."""
    many = len(entry.owners) > _FEW_OWNERS
    for owner in entry.owners[:1] if many else entry.owners:
        place = len(columns.firsts)
        columns.firsts.append(owner)
        if many:
            columns.crowds.append((place, entry.owners[1:]))
        if entry.whole is not None:
            columns.partial.append((place, entry.whole))
        for column, values in terms.items():
            asked.setdefault(column, []).append((place, values))


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
