"""Many event patterns at once: each alternative is found by one of its paths, and then asked with its neighbours.

The plain rule that this must agree with is each filter's ``evaluate``. What asks one path only for values or parts of
texts is answered by looking them up. An alternative that asks more is found by a value that one of its paths has to
have, if it is one of a few, else by a path that has to be there; one whose paths may all be missing is asked always.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tagcast.filters.compiled import FilterInput
from tagcast.filters.event_pattern.evaluate import COMPARISONS_MAX, steps_of
from tagcast.filters.event_pattern.event import Decimals, Event, Value
from tagcast.filters.event_pattern.leaves import Absent, AnythingBut, Equals, Exists, Numeric, Token
from tagcast.filters.event_pattern.pattern import Condition
from tagcast.filters.event_pattern.scopes import BODY_UNKNOWN, Scope, event_of
from tagcast.filters.event_pattern_filter import EventPatternFilter, PatternDialect
from tagcast.filters.index.event_cell import HANDFUL_MAX, Cell, Entry, Found, Handful
from tagcast.filters.index.event_column import Column, token_from_row, token_row
from tagcast.strict_json import JSON_VALUES_MAX

CELL_MAX = 4_096
KEYS_MAX = 16
"""An alternative is kept below each value of its key; what allows more is found by the path."""
_Asked = Cell | Handful


class Heavy(NamedTuple):
    """A pattern that may take too long on large events: its comparisons, in all and by path."""

    weight: int
    owner: int
    by_path: Mapping[str, int]

    def is_too_much(self, event: Event) -> bool:
        """Say as :func:`tagcast.filters.event_pattern.evaluate.is_too_much`."""
        values = event.values
        return sum(weight * len(values.get(path, ())) for path, weight in self.by_path.items()) > COMPARISONS_MAX


class Posting:
    """What is found by one path: owners by what they ask of it, and cells by its values or its presence."""

    __slots__ = ("_alone", "_by_token", "_exact", "_line", "_present")

    def __init__(
        self,
        line: bytes | None,
        by_token: dict[Value, _Asked | bytes],
        present: list[_Asked | bytes],
        exact: Mapping[Value, list[int]] | None = None,
        alone: Column | None = None,
    ) -> None:
        self._line = line
        self._by_token, self._present = by_token, present
        self._exact, self._alone = exact or {}, alone

    def match(self, values: Sequence[Value], event: Event, found: Found) -> None:
        """Add the owners of what the event meets."""
        if self._line is not None:
            self._exact, self._alone = _read_alone(self._line)
            self._line = None
        alone = self._alone
        for value in values:
            if type(value) is Decimals:
                self._match_token(value.text, event, found)
                self._match_token(value.number, event, found)
            else:
                self._match_token(value, event, found)
            if alone is not None:
                for owners in alone.hits(value):
                    found.owners += owners
        if self._present:
            _ask(self._present, event, found)

    def _match_token(self, token: Value, event: Event, found: Found) -> None:
        owners = self._exact.get(token)
        if owners is not None:
            found.owners += owners
        cell = self._by_token.get(token)
        if cell is not None:
            if isinstance(cell, bytes):
                cell = self._by_token[token] = _read(cell)
            cell.match(event, found)

    def lines(self) -> Iterator[bytes]:
        """What is read when a message needs it: what asks only this path, then the cells."""
        if self._line is not None:
            yield self._line
        else:
            exact = [[token_row(token), owners] for token, owners in self._exact.items()]
            yield _packed([exact, None if self._alone is None else self._alone.as_row()])
        for cell in (*self._by_token.values(), *self._present):
            yield cell if isinstance(cell, bytes) else _written(cell)

    def as_row(self) -> list[Any]:
        """The values and the number of cells, in the order of :meth:`lines`."""
        return [[token_row(token) for token in self._by_token], len(self._present)]

    @classmethod
    def from_row(cls, lines: Iterator[bytes], tokens: Sequence[Any], present: int) -> Posting:
        """Return the posting that :meth:`as_row` and :meth:`lines` described."""
        line = next(lines)
        by_token: dict[Value, _Asked | bytes] = {token_from_row(*row): next(lines) for row in tokens}
        return cls(line, by_token, [next(lines) for _ in range(present)])


class PatternIndex:
    """The patterns that read the same of a message."""

    def __init__(
        self,
        owners: Sequence[int],
        heavy: Sequence[Heavy],
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
        """Index patterns by their owners."""
        entries: dict[tuple[Any, ...], Entry] = {}
        heavy, owners, overlapping = [], [], False
        for owner, each in filters:
            pattern = each.pattern
            owners.append(owner)
            overlapping |= len(pattern.alternatives) > 1
            if pattern.weight * JSON_VALUES_MAX > COMPARISONS_MAX:
                by_path: Counter[str] = Counter()
                for condition in pattern.conditions:
                    by_path[condition.path] += condition.weight
                heavy.append(Heavy(pattern.weight, owner, dict(by_path)))
            for places in pattern.alternatives:
                conditions = tuple(pattern.conditions[place] for place in places)
                key = (steps_of(pattern), conditions)
                known = entries.get(key)
                if known is None:
                    entries[key] = Entry([owner], conditions, steps_of(pattern))
                else:
                    known.owners.append(owner)
        heavy.sort(key=lambda each: -each.weight)
        postings, always, shares = _placed(list(entries.values()))
        return cls(owners, heavy, postings, always, overlapping or shares)

    def match(self, event: Event) -> tuple[list[int], list[int]]:
        """The owners of patterns that the event meets, and of those that take too long on it."""
        found = Found()
        values, postings = event.values, self._postings
        for path in self._paths & values.keys():
            postings[path].match(values[path], event, found)
        if self._always:
            _ask(self._always, event, found)
        heavy = self._heavy if self._heavy and self._heavy[0].weight * event.most > COMPARISONS_MAX else ()
        if event.most == 1 and not heavy and not self._overlapping:
            return found.owners, found.failed
        too_much = {each.owner for each in heavy if each.is_too_much(event)}
        once = set(found.owners) - too_much
        return list(once), list(too_much.union(found.failed) - once)

    def as_row(self) -> list[Any]:
        """Plain lists, for a snapshot, beside :meth:`lines`."""
        rows = [[path, *posting.as_row()] for path, posting in self._postings.items()]
        return [self.owners, self._heavy, rows, len(self._always), self._overlapping]

    def lines(self) -> list[bytes]:
        """What is read when a message needs it, as lines of JSON."""
        found = [line for posting in self._postings.values() for line in posting.lines()]
        return found + [cell if isinstance(cell, bytes) else _written(cell) for cell in self._always]

    @classmethod
    def from_row(
        cls,
        lines: Iterator[bytes],
        owners: list[int],
        heavy: Sequence[Any],
        rows: Sequence[Any],
        always: int,
        overlapping: bool,
    ) -> PatternIndex:
        """Return the index that :meth:`as_row` and :meth:`lines` described."""
        postings = {path: Posting.from_row(lines, *row) for path, *row in rows}
        rest: list[_Asked | bytes] = [next(lines) for _ in range(always)]
        return cls(owners, [Heavy(*each) for each in heavy], postings, rest, overlapping)


class EventIndex:
    """The patterns of a topic, apart by what they read of a message."""

    def __init__(self, views: Mapping[tuple[Scope, bool], PatternIndex]) -> None:
        self._views = views

    @classmethod
    def build(cls, filters: Sequence[tuple[int, EventPatternFilter]]) -> EventIndex:
        """Index the patterns by their owners."""
        by_view: dict[tuple[Scope, bool], list[tuple[int, EventPatternFilter]]] = {}
        for owner, each in filters:
            are_attributes = each.scope is Scope.PROPERTIES and each.dialect is PatternDialect.SNS
            by_view.setdefault((each.scope, are_attributes), []).append((owner, each))
        return cls({view: PatternIndex.build(several) for view, several in by_view.items()})

    def __len__(self) -> int:
        """How many patterns there are."""
        return sum(len(index.owners) for index in self._views.values())

    def match(self, message: FilterInput) -> tuple[list[int], list[int]]:
        """The owners of patterns that the message meets, and of those that fail on it."""
        found: list[int] = []
        errors: list[int] = []
        for (scope, are_attributes), index in self._views.items():
            event = event_of(message, scope, are_attributes=are_attributes)
            if isinstance(event, Event):
                more, failed = index.match(event)
                found += more
                errors += failed
            elif event == BODY_UNKNOWN:
                errors += index.owners
        return found, errors

    def as_rows(self) -> list[Any]:
        """Plain lists, for a snapshot, beside :meth:`lines`."""
        return [[*view, index.as_row()] for view, index in self._views.items()]

    def lines(self) -> list[bytes]:
        """What is read when a message needs it, as lines of JSON."""
        return [line for index in self._views.values() for line in index.lines()]

    @classmethod
    def from_rows(cls, lines: Iterable[bytes], *rows: Any) -> EventIndex:
        """Return the index that :meth:`as_rows` and :meth:`lines` described."""
        rest = iter(lines)
        return cls({(Scope(scope), attributes): PatternIndex.from_row(rest, *row) for scope, attributes, row in rows})


def _ask(cells: list[_Asked | bytes], event: Event, found: Found) -> None:
    for place, cell in enumerate(cells):
        if isinstance(cell, bytes):
            cell = cells[place] = _read(cell)
        cell.match(event, found)


class _Place:
    """What is found by one path, while an index is built."""

    def __init__(self) -> None:
        self.exact: dict[Value, list[int]] = {}
        self.alone: Column | None = None
        self.by_token: dict[Value, list[Entry]] = {}
        self.present: list[Entry] = []


def _placed(entries: Sequence[Entry]) -> tuple[dict[str, Posting], list[_Asked | bytes], bool]:
    """Return where each entry is found, what is asked always, and whether a value may find an owner twice."""
    asking = Counter((each.path, token) for entry in entries for each in entry.conditions for token in each.tokens)
    places: dict[str, _Place] = {}
    always: list[Entry] = []
    shares = False
    for entry in entries:
        only = entry.conditions[0]
        if len(entry.conditions) == 1 and not any(isinstance(leaf, _NOT_LOOKED_UP) for leaf in only.leaves):
            shares |= len(only.leaves) > 1
            _alone(places.setdefault(only.path, _Place()), only, entry.owners)
            continue
        key = _key(entry.conditions, asking)
        if key is None:
            always.append(entry)
        elif _is_few(key):
            for token in key.tokens:
                places.setdefault(key.path, _Place()).by_token.setdefault(token, []).append(entry)
        else:
            places.setdefault(key.path, _Place()).present.append(entry)
    postings = {
        path: Posting(
            None,
            {token: _asked(several, path)[0] for token, several in place.by_token.items()},
            [*_asked(place.present, None)],
            place.exact,
            place.alone,
        )
        for path, place in places.items()
    }
    return postings, [*_asked(always, None)], shares


_NOT_LOOKED_UP = (Numeric, AnythingBut, Exists, Absent)


def _alone(place: _Place, condition: Condition, owners: list[int]) -> None:
    for leaf in condition.leaves:
        if isinstance(leaf, Equals):
            place.exact.setdefault(leaf.token, []).extend(owners)
        else:
            if place.alone is None:
                place.alone = Column()
            for owner in owners:
                place.alone.add(leaf, owner)


def _is_few(condition: Condition) -> bool:
    return not condition.others and not condition.may_be_absent and len(condition.tokens) <= KEYS_MAX


def _key(conditions: Sequence[Condition], asking: Mapping[tuple[str, Token], int]) -> Condition | None:
    """Return the condition that finds an alternative: the one that fewest ask, values before presence."""
    few = [each for each in conditions if _is_few(each)]
    if few:
        return min(few, key=lambda each: sum(asking[each.path, token] for token in each.tokens))
    return next((each for each in conditions if not each.may_be_absent), None)


def _asked(entries: Sequence[Entry], key: str | None) -> list[_Asked]:
    if len(entries) <= HANDFUL_MAX:
        return [Handful(entries)] if entries else []
    if key is not None:
        return [Cell.of(entries, key)]
    return [Cell.of(entries[first : first + CELL_MAX], key) for first in range(0, len(entries), CELL_MAX)]


def _read_alone(line: bytes) -> tuple[Mapping[Value, list[int]], Column | None]:
    exact, alone = json.loads(line)
    owners = {token_from_row(*row): owners for row, owners in exact}
    return owners, None if alone is None else Column.from_row(*alone)


def _read(line: bytes) -> _Asked:
    is_cell, row = json.loads(line)
    return Cell.from_row(*row) if is_cell else Handful([Entry.from_row(*each) for each in row])


def _written(asked: _Asked) -> bytes:
    return _packed([isinstance(asked, Cell), asked.as_row()])


def _packed(row: object) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode()
