"""Matches an event with many patterns at once. One path of each alternative of a pattern is its lookup key.

The lookup finds the alternatives whose key the event has. Their other paths are then compared with the event. An
alternative with one path needs no more than the lookup, if it compares the path with values or parts of texts. The key
of other alternatives is a path with few possible values, else a path that must be present. Alternatives without such a
path are evaluated for every event. Tests compare the result with each filter's ``evaluate``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from tagcast.filters.event_pattern.evaluate import COMPARISONS_MAX, TRIED, branches_of
from tagcast.filters.event_pattern.event import Decimals, Event, Value
from tagcast.filters.event_pattern.leaves import Absent, AnythingBut, Equals, Exists, Leaf, Numeric, read_value
from tagcast.filters.event_pattern.pattern import Condition
from tagcast.filters.event_pattern.scopes import EVENT_VALUES_MAX
from tagcast.filters.event_pattern_filter import EventPatternFilter
from tagcast.filters.index.event_cell import HANDFUL_MAX, EventCell, EventEntry, EventList, EventMatches
from tagcast.filters.index.event_column import Checked, Column, Skips, token_from_row, token_row

CELL_MAX = 4_096
KEYS_MAX = 16
"""An alternative is stored below each value of its key. If there are more values, the path's presence finds it."""
_Asked = EventCell | EventList


class HeavyPattern(NamedTuple):
    """A pattern that may need more than :data:`COMPARISONS_MAX` comparisons for a large event.

    *by_path* maps each path to the comparisons that one value of the path needs. *tried* are the comparisons that each
    object in an array adds. *weight* is the sum of all these numbers. *owner* is the ordinal of the subscription.
    """

    weight: int
    owner: int
    by_path: Mapping[str, int]
    tried: int

    def is_too_much(self, event: Event) -> bool:
        """Return whether evaluating the pattern for *event* would need more than :data:`COMPARISONS_MAX` comparisons.

        The result is that of :func:`tagcast.filters.event_pattern.evaluate.is_too_much`.
        """
        values = event.values
        compared = sum(weight * len(values.get(path, ())) for path, weight in self.by_path.items())
        return compared + self.tried * event.objects > COMPARISONS_MAX


class Posting:
    """The alternatives of patterns whose lookup key is the same path.

    The lookup tables find owners or cells (groups of alternatives, in *cells*) by a value of the path. The cells in
    *present* are evaluated whenever the path has a value. Lookup tables and cells may be JSON lines of a snapshot,
    which are parsed at their first use.
    """

    __slots__ = ("_cells", "_looked_up", "_present")

    def __init__(
        self, looked_up: LookupTables | bytes, cells: list[_Asked | bytes], present: list[_Asked | bytes]
    ) -> None:
        self._looked_up, self._cells, self._present = looked_up, cells, present

    def match(self, values: Sequence[Value], event: Event, found: EventMatches) -> None:
        """Add to *found* the owners of the alternatives that *event* matches.

        *values* are the values of this path in *event*.
        """
        looked_up = self._looked_up
        if isinstance(looked_up, bytes):
            looked_up = self._looked_up = LookupTables.from_row(*json.loads(looked_up))
        exact, alone, keys = looked_up
        skips = found.skipped.__contains__ if found.skipped else None
        skips_cell = cache(lambda number: _cell(self._cells, number).is_skipped(found.skipped)) if skips else None
        others_alone, others_of_keys = _others(alone, skips), _others(keys, skips_cell)
        cell_numbers: dict[int, None] = {}
        for value in values if len(values) == 1 else dict.fromkeys(values):
            for token in (value.text, value.number) if type(value) is Decimals else (value,):
                found.owners += exact.get(token, ())
            if alone is not None:
                for owners in _find_met(alone, value, others_alone, skips):
                    found.owners += owners
            for numbers in () if keys is None else _find_met(keys, value, others_of_keys, skips_cell):
                cell_numbers.update(dict.fromkeys(numbers))
        # A cell evaluates the whole event, so once is enough, however many array elements have the value.
        for number in cell_numbers:
            _ask(self._cells, number, event, found)
        for number in range(len(self._present)):
            _ask(self._present, number, event, found)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the snapshot that are parsed at their first use: the lookup tables, then the cells."""
        yield self._looked_up if isinstance(self._looked_up, bytes) else _pack(self._looked_up.as_row())
        for cell in (*self._cells, *self._present):
            yield cell if isinstance(cell, bytes) else _write_cell(cell)

    def as_row(self) -> list[int]:
        """Return the number of cells found by a value, and the number of cells evaluated if the path is present."""
        return [len(self._cells), len(self._present)]

    @classmethod
    def from_row(cls, lines: Iterator[bytes], cells: int, present: int) -> Posting:
        """Restore the posting from the next items of *lines* and the two numbers of its :meth:`as_row`."""
        looked_up = next(lines)
        return cls(looked_up, [next(lines) for _ in range(cells)], [next(lines) for _ in range(present)])


class LookupTables(NamedTuple):
    """The lookup tables of one path, which find alternatives by a value of the path.

    *exact* and *alone* find the owners of alternatives that have only this path. *exact* finds them by an equal value,
    and *alone* by other leaves. *keys* finds the numbers of cells with alternatives of several paths. *alone* and
    *keys* are None if they would be empty.
    """

    exact: dict[Value, tuple[int, ...]]
    alone: Column | None
    keys: Column | None

    def as_row(self) -> list[Any]:
        """Return the tables as plain lists, for a snapshot."""
        exact = [[token_row(token), owners] for token, owners in self.exact.items()]
        return [exact, *(None if each is None else each.as_row() for each in (self.alone, self.keys))]

    @classmethod
    def from_row(cls, exact: Sequence[Any], *columns: Any) -> LookupTables:
        """Restore the tables from the items of its :meth:`as_row`."""
        alone, keys = (None if row is None else Column.from_row(*row) for row in columns)
        return cls({token_from_row(*token): tuple(owners) for token, owners in exact}, alone, keys)


class PatternIndex:
    """The index of all patterns of a topic that read the same part of messages in the same way."""

    def __init__(
        self,
        owners: Sequence[int],
        heavy: Sequence[HeavyPattern],
        postings: Mapping[str, Posting],
        always: list[_Asked | bytes],
        overlapping: bool,
    ) -> None:
        self.owners = owners
        self._heavy = heavy
        self._postings, self._paths = postings, postings.keys()
        self._always = always
        self._overlapping = overlapping

    @classmethod
    def build(cls, filters: Iterable[tuple[int, EventPatternFilter]]) -> PatternIndex:
        """Return an index of *filters*. Each has its subscription's ordinal, which :meth:`match` returns as owner."""
        entries: dict[tuple[Condition, ...], EventEntry] = {}
        heavy, owners, overlapping = [], [], False
        for owner, each in filters:
            pattern = each.pattern
            owners.append(owner)
            overlapping |= len(pattern.alternatives) > 1
            tried = TRIED * branches_of(pattern)
            by_path: Counter[str] = Counter()
            for condition in pattern.conditions:
                by_path[condition.path] += condition.weight
            if (max(by_path.values()) + tried) * EVENT_VALUES_MAX > COMPARISONS_MAX:
                heavy.append(HeavyPattern(pattern.weight + tried, owner, dict(by_path), tried))
            for places in pattern.alternatives:
                conditions = tuple(pattern.conditions[place] for place in places)
                known = entries.get(conditions)
                if known is None:
                    entries[conditions] = EventEntry([owner], conditions)
                else:
                    known.owners.append(owner)
        heavy.sort(key=lambda each: -each.weight)
        postings, always, shares = _place_entries(list(entries.values()))
        return cls(owners, heavy, postings, always, overlapping or shares)

    def match(self, event: Event) -> tuple[list[int], list[int]]:
        """Return the owners of the patterns that *event* matches, and the owners of the patterns that take too long."""
        most = max(event.most, event.objects)
        heavy = self._heavy if self._heavy and self._heavy[0].weight * most > COMPARISONS_MAX else ()
        too_much = frozenset(each.owner for each in heavy if each.is_too_much(event))
        found = EventMatches(too_much)
        values, postings = event.values, self._postings
        for path in self._paths & values.keys():
            postings[path].match(values[path], event, found)
        for number in range(len(self._always)):
            _ask(self._always, number, event, found)
        if event.most == 1 and not heavy and not self._overlapping:
            return found.owners, found.failed
        once = set(found.owners) - too_much
        return list(once), list(too_much.union(found.failed) - once)

    def as_row(self) -> list[Any]:
        """Return the index as plain lists, for a snapshot, without the lookup tables and cells in :meth:`lines`."""
        rows = [[path, *posting.as_row()] for path, posting in self._postings.items()]
        return [self.owners, self._heavy, rows, len(self._always), self._overlapping]

    def lines(self) -> list[bytes]:
        """Return the lookup tables and cells as lines of a snapshot. Each line is parsed at its first use."""
        found = [line for posting in self._postings.values() for line in posting.lines()]
        return found + [cell if isinstance(cell, bytes) else _write_cell(cell) for cell in self._always]

    @classmethod
    def from_row(cls, lines: Iterator[bytes], *row: Any) -> PatternIndex:
        """Restore the index from its :meth:`lines` and the items of its :meth:`as_row`."""
        owners, heavy, rows, always, overlapping = row
        postings = {path: Posting.from_row(lines, *row) for path, *row in rows}
        rest: list[_Asked | bytes] = [next(lines) for _ in range(always)]
        return cls(owners, [HeavyPattern(*each) for each in heavy], postings, rest, overlapping)


def _others(column: Column | None, skips: Skips | None) -> Checked:
    """Return the leaves of *column* that no lookup finds, except those whose place *skips* excludes."""
    if column is None or skips is None:
        return [] if column is None else column.others
    return [(leaf, places) for leaf, places in column.others if not skips(places[0])]


def _find_met(column: Column, value: Value, others: Checked, skips: Skips | None) -> list[list[int]]:
    """Return lists of places: those of the leaves that *value* meets, by a lookup or among *others*."""
    hits = column.hits(value, skips)
    for leaf, places in others:
        if leaf.holds(read_value(leaf, value)):
            hits.append(places)
    return hits


def _ask(cells: list[_Asked | bytes], number: int, event: Event, found: EventMatches) -> None:
    _cell(cells, number).match(event, found)


def _cell(cells: list[_Asked | bytes], number: int) -> _Asked:
    cell = cells[number]
    if isinstance(cell, bytes):
        cell = cells[number] = _read(cell)
    return cell


class _Place:
    """The alternatives whose lookup key is one path, while an index is built."""

    def __init__(self) -> None:
        self.exact: dict[Value, list[int]] = {}
        self.alone: Column | None = None
        self.by_leaf: dict[Leaf, list[EventEntry]] = {}
        self.present: list[EventEntry] = []

    def add_alone(self, condition: Condition, owners: Sequence[int]) -> None:
        """Add a pattern whose only condition is *condition*."""
        for leaf in condition.leaves:
            if isinstance(leaf, Equals):
                self.exact.setdefault(leaf.token, []).extend(owners)
            else:
                if self.alone is None:
                    self.alone = Column()
                for owner in owners:
                    self.alone.add(leaf, owner)

    def posting(self, path: str) -> Posting:
        """Return the posting of these alternatives. *path* is their lookup key."""
        keys = Column() if self.by_leaf else None
        cells: list[_Asked | bytes] = []
        for number, (leaf, entries) in enumerate(self.by_leaf.items()):
            assert keys is not None
            keys.add(leaf, number)
            cells += _build_cells(entries, path)
        exact = {token: tuple(owners) for token, owners in self.exact.items()}
        return Posting(LookupTables(exact, self.alone, keys), cells, [*_build_cells(self.present, None)])


def _place_entries(entries: Sequence[EventEntry]) -> tuple[dict[str, Posting], list[_Asked | bytes], bool]:
    """Return the postings by path, the cells evaluated for every event, and whether a match may find an owner twice."""
    asking = Counter((each.path, leaf) for entry in entries for each in entry.conditions for leaf in each.leaves)
    places: dict[str, _Place] = {}
    always: list[EventEntry] = []
    shares = False
    for entry in entries:
        key = _choose_key(entry.conditions, asking)
        if key is None:
            always.append(entry)
            continue
        place = places.setdefault(key.path, _Place())
        shares |= len(key.leaves) > 1
        if _is_looked_up(key) and len(entry.conditions) == 1:
            place.add_alone(key, entry.owners)
        elif not _is_looked_up(key) or len(key.leaves) > KEYS_MAX:
            place.present.append(entry)
        else:
            for leaf in key.leaves:
                place.by_leaf.setdefault(leaf, []).append(entry)
    return {path: place.posting(path) for path, place in places.items()}, [*_build_cells(always, None)], shares


_NOT_LOOKED_UP = (Numeric, AnythingBut, Exists, Absent)


def _is_looked_up(condition: Condition) -> bool:
    return not any(isinstance(leaf, _NOT_LOOKED_UP) for leaf in condition.leaves)


def _choose_key(conditions: Sequence[Condition], asking: Mapping[tuple[str, Leaf], int]) -> Condition | None:
    """Return the condition that finds an alternative: of those with a lookup, the one with the rarest leaves.

    Without such a condition, return one that needs its path to be present, or None. *asking* counts each leaf's uses.
    """
    few = [
        each for each in conditions if _is_looked_up(each) and (len(each.leaves) <= KEYS_MAX or len(conditions) == 1)
    ]
    if few:
        return min(few, key=lambda each: sum(asking[each.path, leaf] for leaf in each.leaves))
    return next((each for each in conditions if not each.may_be_absent), None)


def _build_cells(entries: Sequence[EventEntry], key: str | None) -> list[_Asked]:
    if len(entries) <= HANDFUL_MAX:
        return [EventList(entries, key)] if entries else []
    if key is not None:
        return [EventCell.of(entries, key)]
    return [EventCell.of(entries[first : first + CELL_MAX], key) for first in range(0, len(entries), CELL_MAX)]


def _read(line: bytes) -> _Asked:
    is_cell, row = json.loads(line)
    return EventCell.from_row(*row) if is_cell else EventList.from_row(*row)


def _write_cell(cell: _Asked) -> bytes:
    return _pack([isinstance(cell, EventCell), cell.as_row()])


def _pack(row: object) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode()
