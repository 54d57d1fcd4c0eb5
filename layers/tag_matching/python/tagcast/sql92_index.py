"""Many SQL92 filters at once: equal expressions once, found by a text or a number that they need to be TRUE."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tagcast.errors import FilterEvaluationError
from tagcast.sql92 import CompiledExpression, Dialect
from tagcast.sql92.access import TEXT, access_of, keys_of
from tagcast.sql92.expression import restore
from tagcast.sql92.numbers import Number, number_of
from tagcast.sql92.posting import Candidate, Numbers, Test, can_generate, generate

INTERPRETED_MAX = 3
ENTRIES_MAX = 512
Lookup = dict[str, dict[str, list[int]]]
"""Property name → text (or number) → entries."""


@dataclass(slots=True)
class _Entry:
    """One expression, its positions, and the leaf that its keys make TRUE. Restored from ``packed`` when needed."""

    text: str
    dialect: str
    positions: list[int]
    origin: int
    packed: str = ""
    expression: CompiledExpression | None = None

    def compiled(self) -> CompiledExpression:
        if self.expression is None:
            self.expression = restore(self.text, self.dialect, json.loads(self.packed), ())
        return self.expression

    def pack(self) -> str:
        return self.packed or json.dumps(self.compiled().nodes, separators=(",", ":"))


class _Posting:
    """The entries under one key: interpreted at first, one generated function once they are met often."""

    __slots__ = ("_calls", "_entries", "_slow", "_tests")

    def __init__(self, entries: list[_Entry]) -> None:
        self._entries = entries
        self._slow = entries
        self._calls = 0
        self._tests: list[Test] | None = None

    def run(self, texts: Mapping[str, str], numbers: Numbers, found: "_Found") -> None:
        self._calls += 1
        if self._tests is None and self._calls > INTERPRETED_MAX and not found.generated:
            found.generated = True
            self._tests = self._generate()
        for test in self._tests or ():
            test(texts, numbers, found.positions)
        for entry in self._slow:
            found.add(entry, texts)

    def _generate(self) -> list[Test]:
        slow: list[_Entry] = []
        fast: list[Candidate] = []
        for entry in self._entries:
            nodes = entry.compiled().nodes
            if entry.dialect == Dialect.STRICT and can_generate(nodes):
                fast.append(Candidate(nodes, entry.origin, entry.positions))
            else:
                slow.append(entry)
        self._slow = slow
        return [generate(fast[i : i + ENTRIES_MAX]) for i in range(0, len(fast), ENTRIES_MAX)]


class _Found:
    """Positions that match, and positions whose expression failed; one message pays for one function at most."""

    __slots__ = ("errors", "generated", "positions")

    def __init__(self) -> None:
        self.generated = False
        self.positions: list[int] = []
        self.errors: list[int] = []

    def add(self, entry: _Entry, texts: Mapping[str, str]) -> None:
        try:
            if entry.compiled().evaluate(texts) is True:
                self.positions.extend(entry.positions)
        except FilterEvaluationError:
            self.errors.extend(entry.positions)


class Sql92Index:
    """Finds the expressions that are TRUE for a message, and those that fail on it.

    >>> from tagcast.sql92 import compile_sql92
    >>> index = Sql92Index.build([(0, compile_sql92("a = 'x' AND n > 1")), (1, compile_sql92("n < 5"))])
    >>> index.match({"a": "x", "n": "2"})
    ([1, 0], [])
    """

    def __init__(
        self, entries: list[_Entry], by_text: Lookup, by_number: Lookup, missing: dict[str, list[int]], rest: list[int]
    ) -> None:
        self._entries = entries
        self._by_text = by_text
        self._by_number = by_number
        self._missing = missing
        self._rest = rest
        self._numbers = {name: _merged(texts) for name, texts in by_number.items()}
        self._postings: dict[tuple[str, str, str | Number | None], _Posting] = {}
        self._scan = self._posting(rest)

    @classmethod
    def build(cls, expressions: Iterable[tuple[int, CompiledExpression]]) -> "Sql92Index":
        """Index expressions by their positions."""
        grouped: dict[CompiledExpression, list[int]] = {}
        for position, expression in expressions:
            grouped.setdefault(expression, []).append(position)
        values: dict[tuple[str, str], set[str]] = {}
        for expression in grouped:
            for key in keys_of(expression.nodes, expression.dialect):
                values.setdefault((key.sort, key.name), set()).add(key.value)
        spread = {name: len(texts) for name, texts in values.items()}
        entries: list[_Entry] = []
        by_text: Lookup = {}
        by_number: Lookup = {}
        missing: dict[str, list[int]] = {}
        rest: list[int] = []
        for place, (expression, positions) in enumerate(grouped.items()):
            access = access_of(expression.nodes, expression.dialect, spread)
            origin = -1 if access is None else access.origin
            entries.append(_Entry(expression.text, expression.dialect.value, positions, origin, "", expression))
            if access is None:
                rest.append(place)
                continue
            for sort, name, value in access.keys:
                lookup = by_text if sort == TEXT else by_number
                lookup.setdefault(name, {}).setdefault(value, []).append(place)
            if expression.dialect is Dialect.ROCKETMQ:
                # A missing property is unknown and not FALSE there, so what follows is evaluated and may fail.
                for name in {key.name for key in access.keys}:
                    missing.setdefault(name, []).append(place)
        return cls(entries, by_text, by_number, missing, rest)

    def match(self, texts: Mapping[str, str]) -> tuple[list[int], list[int]]:
        """Positions that match and positions whose expression failed; a position may come twice."""
        found = _Found()
        numbers = _NumberView(texts)
        self._scan.run(texts, numbers, found)
        for name, lookup in self._by_text.items():
            text = texts.get(name)
            if text is not None and text in lookup:
                self._cached(TEXT, name, text, lookup[text]).run(texts, numbers, found)
        for name, by_number in self._numbers.items():
            number = numbers.get(name)
            if number is not None and number in by_number:
                self._cached("n", name, number, by_number[number]).run(texts, numbers, found)
        for name, places in self._missing.items():
            if name not in texts:
                self._cached("m", name, None, places).run(texts, numbers, found)
        return found.positions, found.errors

    def as_rows(self) -> list[object]:
        """Plain lists, dicts and texts, for a snapshot."""
        entries = [[e.text, e.dialect, e.positions, e.origin, e.pack()] for e in self._entries]
        return [entries, self._by_text, self._by_number, self._missing, self._rest]

    @classmethod
    def from_rows(
        cls,
        entries: list[tuple[str, str, list[int], int, str]],
        by_text: Lookup,
        by_number: Lookup,
        missing: dict[str, list[int]],
        rest: list[int],
    ) -> "Sql92Index":
        """The index that :meth:`as_rows` described; expressions are restored when they are first met."""
        return cls([_Entry(*row) for row in entries], by_text, by_number, missing, rest)

    def _cached(self, sort: str, name: str, value: str | Number | None, places: list[int]) -> _Posting:
        key = (sort, name, value)
        posting = self._postings.get(key)
        if posting is None:
            posting = self._postings[key] = self._posting(places)
        return posting

    def _posting(self, places: list[int]) -> _Posting:
        return _Posting([self._entries[place] for place in places])


def _merged(texts: dict[str, list[int]]) -> dict[Number | None, list[int]]:
    """By value: ``5`` and ``5.0`` are one number."""
    merged: dict[Number | None, list[int]] = {}
    for text, places in texts.items():
        merged.setdefault(number_of(text), []).extend(places)
    return merged


class _NumberView:
    """Numbers of a message's properties, each read when it is first asked for."""

    __slots__ = ("_numbers", "_texts")

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._numbers: dict[str, Number | None] = {}

    def get(self, name: str, /) -> Number | None:
        try:
            return self._numbers[name]
        except KeyError:
            text = self._texts.get(name)
            number = self._numbers[name] = None if text is None else number_of(text)
            return number
