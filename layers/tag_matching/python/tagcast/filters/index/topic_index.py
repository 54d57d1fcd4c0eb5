"""All filters of a topic in one structure, so that the time per message follows the matches.

The plain rule, each filter's ``evaluate`` one by one, is what this must agree with; the tests compare the two.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, islice
from typing import NamedTuple

from tagcast.errors import FilterEvaluationError, TagcastError
from tagcast.filters.compiled import CompiledFilter, FilterInput, FilterValue
from tagcast.filters.event_pattern_filter import EventPatternFilter
from tagcast.filters.function_filter import FunctionFilter
from tagcast.filters.index.event_index import EventIndex
from tagcast.filters.index.routing_trie import RoutingTrie
from tagcast.filters.index.sql92_index import Sql92Index
from tagcast.filters.index.tag_index import AllTagsIndex, TagIndex
from tagcast.filters.kinds import EverythingFilter, compile_filter
from tagcast.filters.routing_key_filter import RoutingKeyFilter
from tagcast.filters.sql92 import CompiledExpression
from tagcast.filters.sql92_filter import Sql92Filter, properties_with_tags
from tagcast.filters.tag_filters import TagExpressionFilter, TagsFilter

SNAPSHOT_FORMAT = "tagcast-topic-index-4"
_ONES = bytes.maketrans(b"01", b"\x00\x01")


class SnapshotError(TagcastError):
    """A snapshot of another format: the index must be built from the subscriptions."""


class Matched(NamedTuple):
    """The ordinals of subscriptions that receive a message, and of those whose filter failed; both sorted."""

    ordinals: tuple[int, ...]
    errors: tuple[int, ...]


_NOBODY = Matched((), ())


class TopicIndex:
    """Built once per version of a topic's subscriptions; it is not changed afterwards.

    >>> index = TopicIndex.build({4: {"kind": "tags", "tags": ["apple"]}, 9: None})
    >>> from types import SimpleNamespace
    >>> index.match(SimpleNamespace(tags=("imac",), routing_key=None, properties={}))
    Matched(ordinals=(9,), errors=())
    """

    def __init__(
        self,
        ordinals: list[int],
        tags: TagIndex,
        all_tags: AllTagsIndex,
        routing: RoutingTrie,
        expressions: Sql92Index,
        reading_tags: Sql92Index,
        events: EventIndex,
    ) -> None:
        self._ordinals = ordinals
        self._tags = tags
        self._all_tags, self._has_all_tags = all_tags, len(all_tags) > 0
        self._routing = routing
        self._expressions = expressions
        self._reading_tags = reading_tags
        self._events = events
        self._has_events = len(events) > 0
        self._has_tags, self._has_patterns = len(tags) > 0, len(routing) > 0
        self._has_expressions, self._reads_tags = len(expressions) > 0, len(reading_tags) > 0
        self._has_others = self._reads_tags or self._has_all_tags or self._has_events
        self._overlapping = expressions.overlapping or reading_tags.overlapping
        self._only: CompiledFilter | None = None
        self._received = self._failed = _NOBODY

    @classmethod
    def build(cls, filters: Mapping[int, FilterValue | CompiledFilter | None]) -> "TopicIndex":
        """Index the filters, in their JSON form or compiled, by the ordinals of their subscriptions."""
        ordinals = sorted(filters)
        tags: dict[int, frozenset[str]] = {}
        all_tags: dict[int, frozenset[str]] = {}
        always: list[int] = []
        patterns: list[tuple[str, int]] = []
        expressions: list[tuple[int, CompiledExpression]] = []
        reading_tags: list[tuple[int, CompiledExpression]] = []
        events: list[tuple[int, EventPatternFilter]] = []
        compiled: CompiledFilter | None = None
        for ordinal in ordinals:
            value = filters[ordinal]
            compiled = compile_filter(value) if value is None or isinstance(value, Mapping) else value
            match compiled:
                case TagsFilter(match_all=True):
                    all_tags[ordinal] = compiled.tags
                case TagsFilter() | TagExpressionFilter() if compiled.tags:
                    tags[ordinal] = compiled.tags
                case RoutingKeyFilter():
                    patterns.extend((pattern, ordinal) for pattern in compiled.patterns)
                case Sql92Filter():
                    kept = reading_tags if compiled.reads_tags else expressions
                    kept.append((ordinal, compiled.expression))
                case EventPatternFilter():
                    events.append((ordinal, compiled))
                case TagsFilter() | TagExpressionFilter() | EverythingFilter() | FunctionFilter():
                    always.append(ordinal)
                case _:
                    raise TypeError(f"the index does not know filters of kind {compiled.kind}")
        tag_index = TagIndex.build(ordinals, tags, always)
        both = Sql92Index.build(expressions), Sql92Index.build(reading_tags)
        each_tag = AllTagsIndex.build(all_tags)
        index = cls(ordinals, tag_index, each_tag, RoutingTrie(patterns), *both, EventIndex.build(events))
        if len(ordinals) == 1:
            index._only = compiled
            index._received, index._failed = Matched((ordinals[0],), ()), Matched((), (ordinals[0],))
        return index

    def match(self, message: FilterInput) -> Matched:
        """Who receives the message. An error never delivers and never hides another's match."""
        if self._only is not None:
            try:
                return self._received if self._only.evaluate(message) is True else _NOBODY
            except FilterEvaluationError:
                return self._failed
        bits, few = self._tags.match(message.tags) if self._has_tags else (0, ())
        routed = self._routing.match(message.routing_key or "") if self._has_patterns else ()
        found, errors = self._expressions.match(message.properties) if self._has_expressions else ([], [])
        if self._has_others:
            found, errors = self._with_others(message, found, errors)
        failed = tuple(sorted(set(errors))) if errors else ()
        if bits:
            return Matched(self._marked(bits, chain(few, routed, found)), failed)
        if not found:
            if not few:
                return Matched(routed, failed)
            if not routed:
                return Matched(tuple(sorted(few)), failed)
        elif not few and not routed and not self._overlapping:
            found.sort()
            return Matched(tuple(found), failed)
        return Matched(tuple(sorted({*few, *routed, *found})), failed)

    def _with_others(self, message: FilterInput, found: list[int], errors: list[int]) -> tuple[list[int], list[int]]:
        """What was found and has failed, with what few topics have."""
        if self._reads_tags:
            more, failing = self._reading_tags.match(properties_with_tags(message))
            found, errors = [*found, *more], [*errors, *failing]
        if self._has_all_tags:
            found = [*found, *self._all_tags.match(message.tags)]
        if self._has_events:
            more, failing = self._events.match(message)
            found, errors = [*found, *more], [*errors, *failing]
        return found, errors

    def to_snapshot(self) -> bytes:
        """The index as data, independent of the Python version: a line of JSON, and one for each expression."""
        both = self._expressions, self._reading_tags
        rows = (self._tags, self._all_tags, self._routing, *both, self._events)
        parts = [part.as_rows() for part in rows]
        each = [part.lines() for part in (*both, self._events)]
        head = [SNAPSHOT_FORMAT, _runs(self._ordinals), list(map(len, each)), *parts]
        lines = chain.from_iterable(each)
        return b"\n".join([json.dumps(head, separators=(",", ":")).encode(), *lines])

    @classmethod
    def from_snapshot(cls, snapshot: bytes) -> "TopicIndex":
        """The index that :meth:`to_snapshot` described. Raises :class:`SnapshotError` for another format."""
        head, *entries = snapshot.split(b"\n")
        try:
            name, *parts = json.loads(head)
        except ValueError as error:
            raise SnapshotError("not a snapshot of a topic index") from error
        if name != SNAPSHOT_FORMAT:
            raise SnapshotError(f"a snapshot of format {name!r}")
        runs, counts, tags, all_tags, routing, expressions, reading_tags, events = parts
        rest = iter(entries)
        first, second, third = (list(islice(rest, count)) for count in counts)
        return cls(
            [ordinal for first, count in runs for ordinal in range(first, first + count)],
            TagIndex.from_rows(*tags),
            AllTagsIndex(*all_tags),
            RoutingTrie.from_rows(*routing),
            Sql92Index.from_rows(first, *expressions),
            Sql92Index.from_rows(second, *reading_tags),
            EventIndex.from_rows(third, *events),
        )

    def _marked(self, bits: int, others: Iterable[int]) -> tuple[int, ...]:
        """The ordinals of set bits and the others."""
        ordinals = self._ordinals
        marks = bytearray(bin(bits)[:1:-1].encode().translate(_ONES))
        marks.extend(bytes(len(ordinals) - len(marks)))
        for ordinal in others:
            marks[bisect_left(ordinals, ordinal)] = 1
        return tuple(compress(ordinals, marks))


def _runs(ordinals: Sequence[int]) -> list[list[int]]:
    """Neighbours as their first and their number.

    >>> _runs([3, 4, 5, 9])
    [[3, 3], [9, 1]]
    """
    runs: list[list[int]] = []
    for ordinal in ordinals:
        if runs and ordinal == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([ordinal, 1])
    return runs
