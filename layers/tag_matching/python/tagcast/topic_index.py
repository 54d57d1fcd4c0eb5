"""All filters of a topic, compiled once and asked together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tagcast.compiled_filter import CompiledFilter, FilterInput, FilterValue
from tagcast.errors import FilterEvaluationError
from tagcast.filters import compile_filter


@dataclass(frozen=True, slots=True)
class Matched:
    """The ordinals that receive a message, and those whose filter failed; both sorted."""

    ordinals: tuple[int, ...]
    errors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicIndex:
    """The compiled filters of a topic's subscriptions, by ordinal."""

    filters: Mapping[int, CompiledFilter]

    @classmethod
    def build(cls, values: Mapping[int, FilterValue | None]) -> TopicIndex:
        """Compile the JSON forms of all filters."""
        return cls({ordinal: compile_filter(value) for ordinal, value in sorted(values.items())})

    def match(self, message: FilterInput) -> Matched:
        """Return who receives *message*; a filter that fails does not deliver."""
        received, failed = [], []
        for ordinal, compiled in self.filters.items():
            try:
                if compiled.evaluate(message) is True:
                    received.append(ordinal)
            except FilterEvaluationError:
                failed.append(ordinal)
        return Matched(tuple(received), tuple(failed))
