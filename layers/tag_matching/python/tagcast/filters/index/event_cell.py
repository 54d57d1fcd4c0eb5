"""Alternatives of patterns with the same lookup key, tested together: one bit per alternative, one column per path."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tagcast.filters.event_pattern.evaluate import hold_together, may_be_met
from tagcast.filters.event_pattern.event import Decimals, Event, Value
from tagcast.filters.event_pattern.leaves import Numeric, leaf_from_row, leaf_row, read_value
from tagcast.filters.event_pattern.pattern import Condition
from tagcast.filters.index.event_column import Column
from tagcast.filters.sql92.cell import STEP, bits_of, cumulative_bits, places_of

HANDFUL_MAX = 12


class EventEntry(NamedTuple):
    """An alternative of one or more patterns. *owners* are the ordinals of the subscriptions with these patterns."""

    owners: list[int]
    conditions: tuple[Condition, ...]

    def as_row(self) -> list[Any]:
        """Return the entry as plain lists, for a snapshot."""
        conditions = [[each.path, *map(leaf_row, each.leaves)] for each in self.conditions]
        return [self.owners, conditions]

    @classmethod
    def from_row(cls, owners: list[int], conditions: Sequence[Any]) -> EventEntry:
        """Restore the entry from the items of its :meth:`as_row`."""
        made = (Condition(path, tuple(leaf_from_row(*row) for row in rows), (), 0, 1) for path, *rows in conditions)
        return cls(owners, tuple(made))


class EventMatches:
    """Collects the result of matching one event with many patterns. An owner is the ordinal of a subscription.

    *owners* lists the owners of alternatives that match. *failed* lists the owners of alternatives whose search for
    common array elements took too long. Both lists may repeat an owner.

    *skipped* is known before the match. It has the owners whose patterns would need too many comparisons for this
    event. An alternative is not evaluated if all its owners are skipped. The caller ignores skipped owners in *owners*.
    """

    __slots__ = ("failed", "owners", "skipped")

    def __init__(self, skipped: frozenset[int] = frozenset()) -> None:
        self.owners: list[int] = []
        self.failed: list[int] = []
        self.skipped = skipped

    def take(self, entry: EventEntry, event: Event) -> None:
        """Add the owners of *entry* to *owners* if the same array elements of *event* meet all conditions of *entry*.

        The caller has checked that each condition may be met alone. If the search for such elements takes too long, the
        owners are added to *failed*.
        """
        together = hold_together(entry.conditions, event)
        if together:
            self.owners += entry.owners
        elif together is None:
            self.failed += entry.owners


class EventList:
    """A few alternatives, which are evaluated one by one. More alternatives are in an :class:`EventCell`.

    *key* is the path of their lookup key. The lookup has already met the condition on this path, so only the other
    conditions are evaluated. If *key* is None, all conditions are evaluated.
    """

    __slots__ = ("_asked", "_key")

    def __init__(self, entries: Iterable[EventEntry], key: str | None) -> None:
        self._key = key
        # The condition on the key is already met.
        self._asked = [(entry, [each for each in entry.conditions if each.path != key]) for entry in entries]

    def match(self, event: Event, found: EventMatches) -> None:
        """Add to *found* the owners of the alternatives that *event* matches."""
        for entry, conditions in self._asked:
            if found.skipped and found.skipped.issuperset(entry.owners):
                continue
            for condition in conditions:
                if not may_be_met(condition, event):
                    break
            else:
                found.take(entry, event)

    def is_skipped(self, skipped: frozenset[int]) -> bool:
        """Return whether all owners of the alternatives are in *skipped*."""
        return all(skipped.issuperset(entry.owners) for entry, _ in self._asked)

    def as_row(self) -> list[Any]:
        """Return the alternatives as plain lists, for a snapshot."""
        return [self._key, [entry.as_row() for entry, _ in self._asked]]

    @classmethod
    def from_row(cls, key: str | None, rows: Sequence[Any]) -> EventList:
        """Restore a list from the *key* and *rows* that its :meth:`as_row` returned."""
        return cls([EventEntry.from_row(*row) for row in rows], key)


class EventCell:
    """Many alternatives, which are tested together. Each alternative has the position of one bit.

    *owners* are the owners of each alternative. *columns* maps each tested path to its leaves. The place of a leaf is
    the bit of its alternative. *entries* are the alternatives, or their JSON text, which is parsed at the first use.
    """

    __slots__ = ("_all", "_columns", "_entries", "_owners", "_tests")

    def __init__(
        self, owners: Sequence[list[int]], columns: Mapping[str, Column], entries: Sequence[EventEntry] | str
    ) -> None:
        self._owners = owners
        self._columns = columns
        self._entries = entries
        self._all = (1 << len(owners)) - 1
        tests = [(path, _Bits(column, len(owners))) for path, column in columns.items()]
        # The path that most alternatives use excludes the most of them.
        self._tests = sorted(tests, key=lambda test: -test[1].asked.bit_count())

    @classmethod
    def of(cls, entries: Sequence[EventEntry], key: str | None) -> EventCell:
        """Return a cell of *entries*. Conditions on the path *key* are not tested, because the lookup tests them.

        If *key* is None, all conditions are tested.
        """
        columns: dict[str, Column] = {}
        for place, entry in enumerate(entries):
            for condition in entry.conditions:
                if condition.path != key:
                    column = columns.setdefault(condition.path, Column())
                    for leaf in condition.leaves:
                        column.add(leaf, place)
        return cls([entry.owners for entry in entries], columns, entries)

    def match(self, event: Event, found: EventMatches) -> None:
        """Add to *found* the owners of the alternatives that *event* matches."""
        bits, values = self._all, event.values
        skipped = found.skipped
        if skipped:
            left_out = [place for place, owners in enumerate(self._owners) if skipped.issuperset(owners)]
            bits &= ~bits_of(left_out, len(self._owners))
        for path, test in self._tests:
            if bits & test.asked:
                bits &= test.of(values.get(path), bits, path in event.elements, skips=bool(skipped))
                if not bits:
                    return
        owners = self._owners
        if not event.elements:
            for place in places_of(bits):
                found.owners += owners[place]
            return
        if isinstance(self._entries, str):
            self._entries = [EventEntry.from_row(*row) for row in json.loads(self._entries)]
        for place in places_of(bits):
            found.take(self._entries[place], event)

    def is_skipped(self, skipped: frozenset[int]) -> bool:
        """Return whether all owners of the alternatives are in *skipped*."""
        return all(map(skipped.issuperset, self._owners))

    def as_row(self) -> list[Any]:
        """Return the cell as plain lists, for a snapshot. The entries are a JSON text, which few events need parsed."""
        entries = self._entries
        text = entries if isinstance(entries, str) else json.dumps([entry.as_row() for entry in entries])
        return [self._owners, {path: column.as_row() for path, column in self._columns.items()}, text]

    @classmethod
    def from_row(cls, owners: Sequence[list[int]], columns: Mapping[str, Any], entries: str) -> EventCell:
        """Restore the cell from the items of its :meth:`as_row`."""
        return cls(owners, {path: Column.from_row(*row) for path, row in columns.items()}, entries)


class _Bits:
    """The tests of a column as bits. *asked* are the bits of the alternatives with a condition on the column's path."""

    __slots__ = ("_but", "_excluded", "_exists", "_looked_up", "_missing", "_numbers", "_there", "asked")

    def __init__(self, column: Column, count: int) -> None:
        self._looked_up = _LookedUp(column, count)
        self.asked = _used_bits(column, count)
        free = (1 << count) - 1 & ~self.asked
        self._exists = free | bits_of(column.exists, count)
        self._there = bits_of(column.absent, count)
        self._missing = free | self._there
        self._numbers = _Bounds(column.numeric, count) if column.numeric else None
        self._but = bits_of(column.but, count)
        self._excluded = None if column.excluded is None else _LookedUp(column.excluded, count)

    def of(self, values: Sequence[Value] | None, wanted: int, is_in_elements: bool, *, skips: bool) -> int:
        """Return the bits of the alternatives whose condition on this path may be met by *values* (None: no value).

        If the values are inside array elements, a condition that the path is absent may also be met. *skips*: leaves
        that need evaluation are evaluated only for the bits in *wanted*.
        """
        if values is None:
            return self._missing
        bits = self._exists | self._there if is_in_elements else self._exists
        for value in values:
            bits |= self._looked_up.of(value, wanted, skips=skips)
            if self._numbers is not None:
                number = value.number if type(value) is Decimals else value
                if type(number) is float:
                    bits |= self._numbers.beside(number)
            if self._excluded is not None and self._but & wanted:
                bits |= self._but & ~self._excluded.of(value, wanted, skips=skips)
        return bits


class _LookedUp:
    """The lookup tables of a column as bits. The bits of a list of places are computed when a value first finds it."""

    __slots__ = ("_column", "_count", "_others", "_ready")

    def __init__(self, column: Column, count: int) -> None:
        self._column, self._count = column, count
        self._ready: dict[int, int] = {}
        self._others = [(leaf, bits_of(places, count)) for leaf, places in column.others]

    def of(self, value: Value, wanted: int, *, skips: bool) -> int:
        """Return the bits of the leaves that *value* meets.

        Leaves that no lookup finds are evaluated only for the bits in *wanted*. With *skips*, the leaves that a lookup
        finds by a fixed part are also evaluated only for these bits.
        """
        bits, ready = 0, self._ready
        for places in self._column.hits(value, (lambda place: not wanted >> place & 1) if skips else None):
            found = ready.get(id(places))
            if found is None:
                found = ready[id(places)] = bits_of(places, self._count)
            bits |= found
        for leaf, place in self._others:
            if place & wanted and leaf.holds(read_value(leaf, value)):
                bits |= place
        return bits


def _used_bits(column: Column, count: int) -> int:
    """Return the bits of all alternatives with a leaf in *column*."""
    places = {*column.exists, *column.absent, *column.but, *column.numeric}
    places.update(place for each in column.tokens.values() for place in each)
    places.update(place for table in column.parts.values() for each in table.values() for place in each)
    for leaves in (column.others, *(each for table in column.checked.values() for each in table.values())):
        places.update(place for _, each in leaves for place in each)
    return bits_of(list(places), count)


class _Bounds:
    """Ranges of numbers: sorted bounds and, at every ``STEP``-th bound, the bits of all ranges with earlier bounds."""

    __slots__ = ("_highs", "_lows")

    def __init__(self, numeric: Mapping[int, Numeric], count: int) -> None:
        lows = sorted((leaf.low, leaf.low_open, place) for place, leaf in numeric.items())
        highs = sorted((leaf.high, not leaf.high_open, place) for place, leaf in numeric.items())
        places, backwards = [place for _, _, place in lows], [place for _, _, place in reversed(highs)]
        self._lows = [(bound, flag) for bound, flag, _ in lows], (cumulative_bits(places, 0), places)
        self._highs = [(bound, flag) for bound, flag, _ in highs], (cumulative_bits(backwards, 0), backwards)

    def beside(self, number: float) -> int:
        """Return the bits of the ranges that contain *number*."""
        lows, of_lows = self._lows
        highs, of_highs = self._highs
        below = _first(of_lows, bisect_left(lows, (number, True)))
        return below & _first(of_highs, len(highs) - bisect_right(highs, (number, False)))


_Steps = tuple[list[int], list[int]]


def _first(steps: _Steps, count: int) -> int:
    at, places = steps
    bits = at[count // STEP]
    for place in places[count - count % STEP : count]:
        bits |= 1 << place
    return bits
