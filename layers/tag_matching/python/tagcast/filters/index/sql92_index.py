"""Many SQL92 filters at once: equal expressions once, found by a reading that they need to be TRUE, tested together.

In the rocketmq dialect an expression may also fail. Only a property that is there and cannot be read as some
literal's class makes it fail, so that failures are looked for among the expressions that read the property so.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tagcast.filters.sql92 import CompiledExpression, Dialect
from tagcast.filters.sql92.access import Popularity, access_of
from tagcast.filters.sql92.cell import Cell, Handful, cells_of
from tagcast.filters.sql92.entry import Entry
from tagcast.filters.sql92.failing import failing_dimensions
from tagcast.filters.sql92.readings import TEXT, Dimension, MessageView, Reading, as_row, from_row

_Cells = tuple[Cell | Handful, ...]
_Postings = dict[Reading, list[int]]
"""Value → places of entries."""


class Sql92Index:
    """Finds the owners of expressions that are TRUE for a message, and of those that fail on it.

    >>> from tagcast.filters.sql92 import compile_sql92
    >>> index = Sql92Index.build([(0, compile_sql92("a = 'x' AND n > 1")), (1, compile_sql92("n < 5"))])
    >>> sorted(index.match({"a": "x", "n": "2"})[0])
    [0, 1]
    """

    def __init__(
        self,
        entries: Sequence[Entry | bytes],
        postings: Mapping[Dimension, _Postings],
        scanned: list[int],
        failing: Mapping[Dimension, list[int]],
        suspected: list[int],
        overlapping: bool,
    ) -> None:
        self.overlapping = overlapping
        self._entries = list(entries)
        self._postings = postings
        self._scanned = scanned
        self._failing = failing
        self._suspected = suspected
        self._scan: _Cells | None = None
        self._by_name: dict[str, list[tuple[Dimension, _Postings, dict[Reading, _Cells]]]] = {}
        for dimension, by_value in postings.items():
            self._by_name.setdefault(dimension.name, []).append((dimension, by_value, {}))

    @classmethod
    def build(cls, expressions: Iterable[tuple[int, CompiledExpression]]) -> "Sql92Index":
        """Index expressions by their owners."""
        grouped: dict[CompiledExpression, list[int]] = {}
        for owner, expression in expressions:
            grouped.setdefault(expression, []).append(owner)
        popularity = Popularity()
        for expression in grouped:
            popularity.count(expression.nodes, expression.dialect)
        entries: list[Entry] = []
        postings: dict[Dimension, _Postings] = {}
        scanned: list[int] = []
        failing: dict[Dimension, list[int]] = {}
        suspected: list[int] = []
        overlapping = False
        for place, (expression, owners) in enumerate(grouped.items()):
            access = access_of(expression.nodes, expression.dialect, popularity)
            entries.append(Entry.of(expression, access, owners))
            if access is None:
                scanned.append(place)
            for dimension, value in access.keys if access is not None else ():
                postings.setdefault(dimension, {}).setdefault(value, []).append(place)
            overlapping = overlapping or len({key.dimension for key in access.keys} if access is not None else ()) > 1
            if expression.dialect is Dialect.ROCKETMQ:
                dimensions = failing_dimensions(expression.nodes)
                if dimensions is None:
                    suspected.append(place)
                for dimension in dimensions or ():
                    failing.setdefault(dimension, []).append(place)
        return cls(entries, postings, scanned, failing, suspected, overlapping)

    def __len__(self) -> int:
        """How many different expressions there are."""
        return len(self._entries)

    def match(self, texts: Mapping[str, str]) -> tuple[list[int], list[int]]:
        """Owners of what is TRUE, and owners of what failed; only an ``overlapping`` index finds an owner twice."""
        view = MessageView(texts)
        found: list[int] = []
        if self._scanned:
            if self._scan is None:
                self._scan = self._cells(self._scanned)
            for cell in self._scan:
                cell.match(view, found)
        by_name = self._by_name
        for name in texts if len(texts) < len(by_name) else by_name:
            for dimension, by_value, ready in by_name.get(name, ()):
                value = texts.get(name) if dimension[0] == TEXT else view.get(dimension)
                if value is None or value not in by_value:
                    continue
                cells = ready.get(value)
                if cells is None:
                    cells = ready[value] = self._cells(by_value[value])
                for cell in cells:
                    cell.match(view, found)
        return found, self._failed(view) if self._failing or self._suspected else []

    def as_rows(self) -> list[object]:
        """The parts that are read at once, for a snapshot: plain lists, dicts and texts."""
        postings = [
            [*dimension, [[as_row(value), places] for value, places in by_value.items()]]
            for dimension, by_value in self._postings.items()
        ]
        failing = [[*dimension, places] for dimension, places in self._failing.items()]
        return [postings, self._scanned, failing, self._suspected, self.overlapping]

    @classmethod
    def from_rows(cls, entries: Sequence[bytes], *rows: Any) -> "Sql92Index":
        """The index that :meth:`as_rows` and :meth:`entry_lines` described; entries are read when they are met."""
        postings, scanned, failing, *rest = rows
        return cls(
            entries,
            {
                Dimension(kind, name): {from_row(kind, value): places for value, places in by_value}
                for kind, name, by_value in postings
            },
            scanned,
            {Dimension(kind, name): places for kind, name, places in failing},
            *rest,
        )

    def entry_lines(self) -> list[bytes]:
        """Each entry as a line of JSON."""
        return [
            entry if isinstance(entry, bytes) else json.dumps(entry.as_row(), separators=(",", ":")).encode()
            for entry in self._entries
        ]

    def _read(self, places: Iterable[int]) -> list[Entry]:
        """The entries at some places; those that nobody met before are read from their lines, all at once."""
        entries = self._entries
        lines = {place: entry for place in places if isinstance(entry := entries[place], bytes)}
        for place, row in zip(lines, json.loads(b"[" + b",".join(lines.values()) + b"]"), strict=True):
            entries[place] = Entry.from_row(*row)
        return [entry for place in places if isinstance(entry := entries[place], Entry)]

    def _cells(self, places: list[int]) -> _Cells:
        return cells_of(self._read(places))

    def _failed(self, view: MessageView) -> list[int]:
        suspects = dict.fromkeys(self._suspected)
        for dimension, places in self._failing.items():
            if view.fails(dimension):
                suspects.update(dict.fromkeys(places))
        failed: list[int] = []
        for entry in self._read(suspects):
            if entry.fails(view):
                failed += entry.owners
        return failed
