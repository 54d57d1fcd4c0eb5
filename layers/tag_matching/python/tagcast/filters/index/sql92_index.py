"""Matches a message with many SQL92 filters at once. Equal filters are stored once.

The index looks up the values of the message's properties. Expressions found by the same value are tested together. An
expression of the rocketmq dialect may also fail, usually because a property's text cannot be parsed as the type of a
literal. For such a text, the index checks the expressions that parse this property as this type. Expressions that may
fail for another reason are checked for every message.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tagcast.filters.sql92 import CompiledExpression, Dialect
from tagcast.filters.sql92.access import AccessPlan, Popularity, may_hide, plans_of
from tagcast.filters.sql92.alternatives import alternatives_of
from tagcast.filters.sql92.cell import SqlCell, SqlList, cell_rows, cells_of
from tagcast.filters.sql92.entry import SqlEntry, Suspect
from tagcast.filters.sql92.readings import PRESENCE, TEXT, Dimension, PropertyReadings, Reading, as_row, from_row
from tagcast.filters.sql92.terms import failing_dimensions

_Cells = tuple[SqlCell | SqlList, ...]
_Found = list[SqlEntry] | bytes
"""The entries of one lookup key, or the line of a snapshot with the cells of these entries."""
_Ready = dict[Reading, _Found | _Cells]
_ALWAYS = Dimension(PRESENCE, "")
"""The dimension of the entries that are evaluated for every message. It stands for no property."""


class Sql92Index:
    """Finds the owners of expressions that are TRUE for a message, and the owners of expressions that fail.

    >>> from tagcast.filters.sql92 import compile_sql92
    >>> index = Sql92Index.build([(0, compile_sql92("a = 'x' AND n > 1")), (1, compile_sql92("n < 5"))])
    >>> sorted(index.match({"a": "x", "n": "2"})[0])
    [0, 1]
    """

    def __init__(
        self,
        postings: Mapping[Dimension, Mapping[Reading, _Found]],
        wholes: Sequence[CompiledExpression],
        suspects: Sequence[Suspect | bytes],
        failing: Mapping[Dimension, list[int]],
        suspected: list[int],
        overlapping: bool,
    ) -> None:
        self.overlapping = overlapping
        self._postings = postings
        self._wholes = wholes
        self._suspects = list(suspects)
        self._failing = failing
        self._suspected = suspected
        self._always: _Ready = dict(postings.get(_ALWAYS, {}))
        self._by_name: dict[str, tuple[_Ready, list[tuple[Dimension, _Ready]]]] = {}
        for dimension, by_value in postings.items():
            if dimension != _ALWAYS:
                by_text, others = self._by_name.get(dimension.name, ({}, []))
                if dimension.kind == TEXT:
                    by_text = dict(by_value)
                else:
                    others.append((dimension, dict(by_value)))
                self._by_name[dimension.name] = by_text, others

    @classmethod
    def build(cls, expressions: Iterable[tuple[int, CompiledExpression]]) -> "Sql92Index":
        """Return an index of *expressions*, each with an owner. The owner is the ordinal of its subscription."""
        grouped: dict[CompiledExpression, list[int]] = {}
        for owner, expression in expressions:
            grouped.setdefault(expression, []).append(owner)
        apart = [alternatives_of(expression.nodes, expression.dialect) for expression in grouped]
        popularity = Popularity()
        for alternatives in apart:
            for alternative in alternatives:
                popularity.count(alternative)
        postings: dict[Dimension, dict[Reading, list[SqlEntry]]] = {}
        wholes: list[CompiledExpression] = []
        failures = _Failures()
        overlapping = False
        for (expression, owners), alternatives in zip(grouped.items(), apart, strict=True):
            if expression.dialect is Dialect.ROCKETMQ:
                failures.add(expression, Suspect.of(owners, alternatives, expression))
            plans = plans_of(expression, alternatives, len(owners), popularity)
            hiding = _hides(expression, plans)
            if hiding or not all(plan.is_exact for plan in plans):
                wholes.append(expression)
            for access, terms, is_exact in plans:
                entry = SqlEntry(owners, terms, len(wholes) - 1 if hiding or not is_exact else None)
                for dimension, value in access.keys if access is not None else ((_ALWAYS, True),):
                    postings.setdefault(dimension, {}).setdefault(value, []).append(entry)
            keys = [key for plan in plans for key in (plan.access.keys if plan.access is not None else ())]
            overlapping = overlapping or len(plans) > 1 or len({key.dimension for key in keys}) > 1
        return cls(postings, wholes, failures.suspects, failures.failing, failures.suspected, overlapping)

    def __len__(self) -> int:
        """Return the number of lines of the snapshot."""
        return sum(map(len, self._postings.values())) + len(self._suspects)

    def match(self, texts: Mapping[str, str]) -> tuple[list[int], list[int]]:
        """Return the owners of the expressions that are TRUE, and the owners of the expressions that fail.

        *texts* are the message's properties. Owners may be repeated if the attribute *overlapping* is True.
        """
        view = PropertyReadings(texts)
        found: list[int] = []
        for always in self._always:
            for cell in self._lookup_cells(self._always, always):
                cell.match(view, found)
        by_name = self._by_name
        for name in texts if len(texts) < len(by_name) else by_name:
            postings = by_name.get(name)
            text = texts.get(name)
            if postings is None or text is None:
                continue
            by_text, others = postings
            cells = by_text.get(text)
            if cells is not None:
                for cell in cells if isinstance(cells, tuple) else self._lookup_cells(by_text, text):
                    cell.match(view, found)
            for dimension, by_value in others:
                value = view.get(dimension)
                if value is not None and value in by_value:
                    for cell in self._lookup_cells(by_value, value):
                        cell.match(view, found)
        return found, self._failing_places(view) if self._failing or self._suspected else []

    def as_rows(self) -> list[object]:
        """Return the part of a snapshot that is parsed when the index is restored, as plain lists and texts."""
        postings = [
            [*dimension, [as_row(value) for value in by_value]] for dimension, by_value in self._postings.items()
        ]
        failing = [[*dimension, places] for dimension, places in self._failing.items()]
        wholes = [[whole.text, whole.dialect] for whole in self._wholes]
        return [postings, wholes, failing, self._suspected, self.overlapping]

    @classmethod
    def from_rows(cls, lines: Sequence[bytes], *rows: Any) -> "Sql92Index":
        """Restore an index from its :meth:`lines` and the items of its :meth:`as_rows`.

        A line is parsed when a message first needs it.
        """
        rest = iter(lines)
        postings = {
            # zip stops at the shorter first argument without taking a line too many.
            Dimension(kind, name): {from_row(kind, value): line for value, line in zip(values, rest, strict=False)}
            for kind, name, values in rows[0]
        }
        dialects = {each.value: each for each in Dialect}
        wholes = [CompiledExpression(text, dialects[dialect]) for text, dialect in rows[1]]
        failing = {Dimension(kind, name): places for kind, name, places in rows[2]}
        return cls(postings, wholes, list(rest), failing, *rows[3:])

    def lines(self) -> list[bytes]:
        """Return the lines of the snapshot. A line is parsed when a message first needs it."""
        found = [_line(each) for by_value in self._postings.values() for each in by_value.values()]
        return found + [each if isinstance(each, bytes) else _pack(each.as_row()) for each in self._suspects]

    def _lookup_cells(self, by_value: _Ready, value: Reading) -> _Cells:
        """Return the cells of the lookup key *value*. They are built when a message first has this value."""
        cells = by_value[value]
        if not isinstance(cells, tuple):
            rows = json.loads(cells) if isinstance(cells, bytes) else cell_rows(cells)
            cells = by_value[value] = cells_of(rows, self._wholes)
        return cells

    def _failing_places(self, view: PropertyReadings) -> list[int]:
        suspects = dict.fromkeys(self._suspected)
        for dimension, places in self._failing.items():
            if view.fails(dimension):
                suspects.update(dict.fromkeys(places))
        failed: list[int] = []
        for place in suspects:
            suspect = self._suspects[place]
            if isinstance(suspect, bytes):
                suspect = self._suspects[place] = Suspect.from_row(*json.loads(suspect))
            if suspect.fails(view):
                failed += suspect.owners
        return failed


def is_indexed(expression: CompiledExpression) -> bool:
    """Return whether an index decides the expression by lookups and tests of single properties.

    Otherwise the index also evaluates the whole expression.
    """
    plans = plans_of(expression, alternatives_of(expression.nodes, expression.dialect), 1, Popularity())
    return all(plan.is_exact for plan in plans) and not _hides(expression, plans)


def _hides(expression: CompiledExpression, plans: Sequence[AccessPlan]) -> bool:
    return len(plans) > 1 and may_hide(expression)


class _Failures:
    """The expressions that may fail (*suspects*).

    *failing* maps a dimension to the indices of the suspects that may fail if the property's text is unreadable.
    *suspected* has the indices of those that may fail for another reason.
    """

    def __init__(self) -> None:
        self.suspects: list[Suspect] = []
        self.failing: dict[Dimension, list[int]] = {}
        self.suspected: list[int] = []

    def add(self, expression: CompiledExpression, suspect: Suspect) -> None:
        """Add an expression of the rocketmq dialect, if it may fail. *suspect* is the form to store."""
        dimensions = failing_dimensions(expression.nodes)
        if dimensions == frozenset():
            return
        if dimensions is None:
            self.suspected.append(len(self.suspects))
        for dimension in dimensions or ():
            self.failing.setdefault(dimension, []).append(len(self.suspects))
        self.suspects.append(suspect)


def _line(found: _Found) -> bytes:
    return found if isinstance(found, bytes) else _pack(cell_rows(found))


def _pack(row: object) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode()
