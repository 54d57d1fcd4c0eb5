"""The index of a topic's filters that read properties or the body: SQL92 and event patterns.

Only :mod:`tagcast.filters.index.topic_index` imports this module, and only for a topic that has such a filter. The two
languages take a quarter of a publishing function's import time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

from tagcast.filters.compiled import CompiledFilter, FilterInput
from tagcast.filters.event_pattern_filter import EventPatternFilter
from tagcast.filters.index.event_index import EventIndex
from tagcast.filters.index.sql92_index import Sql92Index
from tagcast.filters.sql92 import CompiledExpression
from tagcast.filters.sql92_filter import Sql92Filter, properties_with_tags


class ConditionIndex:
    """An immutable index, which returns the same results as each filter's ``evaluate``.

    *reading_tags* has the SQL92 expressions that read the tags as a property.
    """

    __slots__ = ("_events", "_expressions", "_has_events", "_has_expressions", "_reading_tags", "_reads_tags")

    def __init__(self, expressions: Sql92Index, reading_tags: Sql92Index, events: EventIndex) -> None:
        self._expressions, self._has_expressions = expressions, len(expressions) > 0
        self._reading_tags, self._reads_tags = reading_tags, len(reading_tags) > 0
        self._events, self._has_events = events, len(events) > 0

    @classmethod
    def build(cls, filters: Sequence[tuple[int, CompiledFilter]]) -> ConditionIndex:
        """Return an index of *filters*, each with its subscription's ordinal. Raises TypeError for an unknown kind."""
        expressions: list[tuple[int, CompiledExpression]] = []
        reading_tags: list[tuple[int, CompiledExpression]] = []
        events: list[tuple[int, EventPatternFilter]] = []
        for ordinal, compiled in filters:
            match compiled:
                case Sql92Filter():
                    kept = reading_tags if compiled.reads_tags else expressions
                    kept.append((ordinal, compiled.expression))
                case EventPatternFilter():
                    events.append((ordinal, compiled))
                case _:
                    raise TypeError(f"the index does not know filters of kind {compiled.kind}")
        return cls(Sql92Index.build(expressions), Sql92Index.build(reading_tags), EventIndex.build(events))

    @property
    def overlapping(self) -> bool:
        """Whether a match may return an ordinal twice."""
        return self._expressions.overlapping or self._reading_tags.overlapping

    def match(self, message: FilterInput) -> tuple[list[int], list[int]]:
        """Return the ordinals of the filters that match, and of the filters that failed, both unsorted."""
        found, errors = self._expressions.match(message.properties) if self._has_expressions else ([], [])
        if self._reads_tags:
            more, failing = self._reading_tags.match(properties_with_tags(message))
            found, errors = [*found, *more], [*errors, *failing]
        if self._has_events:
            more, failing = self._events.match(message)
            found, errors = [*found, *more], [*errors, *failing]
        return found, errors

    def snapshot(self) -> tuple[list[Any], list[bytes]]:
        """Return a snapshot as a head that is parsed at once, and lines that are parsed on demand.

        The head has the number of lines of each index, then the rows of each index.
        """
        each = self._expressions, self._reading_tags, self._events
        lines = [index.lines() for index in each]
        return [[*map(len, lines)], *(index.as_rows() for index in each)], list(chain.from_iterable(lines))

    @classmethod
    def from_rows(cls, lines: Iterable[bytes], counts: Sequence[int], *rows: Sequence[Any]) -> ConditionIndex:
        """Restore the index of a :meth:`snapshot`."""
        rest = iter(lines)
        first, second, third = (list(islice(rest, count)) for count in counts)
        expressions, reading_tags, events = rows
        return cls(
            Sql92Index.from_rows(first, *expressions),
            Sql92Index.from_rows(second, *reading_tags),
            EventIndex.from_rows(third, *events),
        )
