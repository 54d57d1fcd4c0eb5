"""Many event patterns at once. The plain rule that this must agree with is each filter's ``evaluate``."""

import json
from collections.abc import Sequence

from tagcast.errors import FilterEvaluationError
from tagcast.filters.compiled import FilterInput
from tagcast.filters.event_pattern_filter import EventPatternFilter, compile_event_pattern


class EventIndex:
    """The patterns of a topic with their owners."""

    def __init__(self, filters: Sequence[tuple[int, EventPatternFilter]]) -> None:
        self._filters = filters

    @classmethod
    def build(cls, filters: Sequence[tuple[int, EventPatternFilter]]) -> "EventIndex":
        """Index the patterns by their owners."""
        return cls(filters)

    def __len__(self) -> int:
        """How many patterns there are."""
        return len(self._filters)

    def match(self, message: FilterInput) -> tuple[list[int], list[int]]:
        """The owners of patterns that the message meets, and of those that fail on it."""
        found, errors = [], []
        for owner, each in self._filters:
            try:
                if each.evaluate(message):
                    found.append(owner)
            except FilterEvaluationError:
                errors.append(owner)
        return found, errors

    def lines(self) -> list[bytes]:
        """The patterns as lines of JSON."""
        return [json.dumps([owner, each.as_json()], separators=(",", ":")).encode() for owner, each in self._filters]

    @classmethod
    def from_lines(cls, lines: Sequence[bytes]) -> "EventIndex":
        """The index that :meth:`lines` described."""
        return cls([(owner, compile_event_pattern(value)) for owner, value in map(json.loads, lines)])
