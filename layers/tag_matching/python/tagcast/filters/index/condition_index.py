"""The index of a topic's filters that read properties or the body: SQL92 and event patterns.

Only :mod:`tagcast.filters.index.topic_index` imports this module, and only for a topic that has such a filter. The two
languages take a quarter of a publishing function's import time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from tagcast.filters.compiled import CompiledFilter, FilterInput
from tagcast.filters.event_pattern.event import Event
from tagcast.filters.event_pattern.scopes import BODY_UNKNOWN, PatternScope, event_of
from tagcast.filters.event_pattern_filter import EventPatternFilter, PatternDialect
from tagcast.filters.index.event_index import PatternIndex
from tagcast.filters.index.sql92_index import Sql92Index
from tagcast.filters.sql92 import CompiledExpression
from tagcast.filters.sql92_filter import Sql92Filter, properties_with_tags

_View = tuple[PatternScope, bool]
"""The part of a message that a pattern reads, and whether its properties are read like SNS attributes."""


class ConditionIndex:
    """An immutable index, which returns the same results as each filter's ``evaluate``.

    *reading_tags* has the SQL92 expressions that read the tags as a property, and *expressions* all others. *patterns*
    has the event patterns, by the part of a message that they read.
    """

    __slots__ = ("_expressions", "_filled", "_patterns", "overlapping")

    def __init__(
        self, expressions: Sql92Index, reading_tags: Sql92Index, patterns: Mapping[_View, PatternIndex]
    ) -> None:
        self._expressions, self._patterns = (expressions, reading_tags), patterns
        self._filled = [(index, index is reading_tags) for index in self._expressions if len(index)]
        self.overlapping = expressions.overlapping or reading_tags.overlapping
        """Whether a match may return an ordinal twice."""

    @classmethod
    def build(cls, filters: Sequence[tuple[int, CompiledFilter]]) -> ConditionIndex:
        """Return an index of *filters*, each with its subscription's ordinal. Raises TypeError for an unknown kind."""
        expressions: dict[bool, list[tuple[int, CompiledExpression]]] = {False: [], True: []}
        patterns: dict[_View, list[tuple[int, EventPatternFilter]]] = {}
        for ordinal, compiled in filters:
            match compiled:
                case Sql92Filter():
                    expressions[compiled.reads_tags].append((ordinal, compiled.expression))
                case EventPatternFilter(scope=scope, dialect=dialect):
                    view = scope, scope is PatternScope.PROPERTIES and dialect is PatternDialect.SNS
                    patterns.setdefault(view, []).append((ordinal, compiled))
                case _:
                    raise TypeError(f"the index does not know filters of kind {compiled.kind}")
        plain, reading_tags = (Sql92Index.build(expressions[reads_tags]) for reads_tags in (False, True))
        return cls(plain, reading_tags, {view: PatternIndex.build(several) for view, several in patterns.items()})

    def match(self, message: FilterInput) -> tuple[list[int], list[int]]:
        """Return the ordinals of the filters that match, and of the filters that failed, both unsorted."""
        found: list[int] = []
        errors: list[int] = []
        for expressions, reads_tags in self._filled:
            more, failed = expressions.match(properties_with_tags(message) if reads_tags else message.properties)
            found, errors = [*found, *more] if found else more, [*errors, *failed]
        for (scope, are_attributes), patterns in self._patterns.items():
            event = event_of(message, scope, are_attributes=are_attributes)
            if isinstance(event, Event):
                more, failed = patterns.match(event)
                found, errors = [*found, *more] if found else more, [*errors, *failed]
            elif event == BODY_UNKNOWN:
                errors += patterns.owners
        return found, errors

    def snapshot(self) -> tuple[list[Any], list[bytes]]:
        """Return the index in two parts, for a snapshot: a head, and lines that are parsed when a message needs them.

        The head has the number of lines of each SQL92 index, the rows of both SQL92 indexes, and the rows of patterns.
        """
        lines = [index.lines() for index in self._expressions]
        rows = [index.as_rows() for index in self._expressions]
        views = [[*view, index.as_row()] for view, index in self._patterns.items()]
        of_patterns = (index.lines() for index in self._patterns.values())
        return [[*map(len, lines)], *rows, views], list(chain.from_iterable((*lines, *of_patterns)))

    @classmethod
    def from_rows(cls, lines: Iterable[bytes], counts: Sequence[int], *rows: Sequence[Any]) -> ConditionIndex:
        """Restore an index from the *lines* and the items of the head (*counts*, *rows*) of its :meth:`snapshot`."""
        rest, (*expressions, views) = iter(lines), rows
        plain, reading_tags = (
            Sql92Index.from_rows(list(islice(rest, count)), *row)
            for count, row in zip(counts, expressions, strict=True)
        )
        patterns = {(PatternScope(scope), flag): PatternIndex.from_row(rest, *row) for scope, flag, row in views}
        return cls(plain, reading_tags, patterns)
