"""All filters of a topic in one index. The time for a message depends mostly on the number of matches.

Tests compare the result with each filter's ``evaluate``.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress
from typing import TYPE_CHECKING, NamedTuple

from tagcast.bits import flags_of
from tagcast.errors import FilterEvaluationError, TagcastError
from tagcast.filters.compiled import CompiledFilter, FilterInput, FilterValue
from tagcast.filters.function_filter import FunctionFilter
from tagcast.filters.index.routing_trie import RoutingTrie
from tagcast.filters.index.tag_index import AllTagsIndex, TagIndex
from tagcast.filters.kinds import EverythingFilter, compile_filter
from tagcast.filters.routing_key_filter import RoutingKeyFilter
from tagcast.filters.tag_filters import TagsFilter

if TYPE_CHECKING:
    from tagcast.filters.index.condition_index import ConditionIndex

SNAPSHOT_FORMAT = "tagcast-topic-index-8"
"""The format of a snapshot, in its first line.

Increase the number with each change of the layout, or of any filter's result, e.g. the order of evaluation. The name of
a stored index has the topic's version or the filters' digest, but no version of the code that built the index.
"""


class SnapshotError(TagcastError):
    """Raised if a snapshot of an index has another format, or is incomplete. The index must be built again."""


class Matched(NamedTuple):
    """The result of a match, as sorted ordinals of subscriptions.

    *ordinals* are the subscriptions that match. *errors* are the subscriptions whose filter failed.
    """

    ordinals: tuple[int, ...]
    errors: tuple[int, ...]


_NONE_MATCHED = Matched((), ())


class TopicIndex:
    """The immutable index of one version of a topic's subscriptions.

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
        conditions: ConditionIndex | None,
    ) -> None:
        self._ordinals = ordinals
        self._tags = tags
        self._all_tags, self._has_all_tags = all_tags, len(all_tags) > 0
        self._routing = routing
        self._conditions = conditions
        self._has_tags, self._has_patterns = len(tags) > 0, len(routing) > 0
        self._overlapping = conditions is not None and conditions.overlapping
        self._has_patterns_alone = self._has_patterns and not (self._has_tags or self._has_all_tags or conditions)
        self._only: CompiledFilter | None = None
        self._received = self._failed = _NONE_MATCHED

    @classmethod
    def build(cls, filters: Mapping[int, FilterValue | CompiledFilter | None]) -> TopicIndex:
        """Return an index of *filters*, by the ordinals of their subscriptions.

        A filter may be compiled or in its JSON form. None is no filter, which matches every message.
        """
        ordinals = sorted(filters)
        tags: dict[int, frozenset[str]] = {}
        all_tags: dict[int, frozenset[str]] = {}
        always: list[int] = []
        patterns: list[tuple[str, int]] = []
        conditions: list[tuple[int, CompiledFilter]] = []
        compiled: CompiledFilter | None = None
        for ordinal in ordinals:
            value = filters[ordinal]
            compiled = compile_filter(value) if value is None or isinstance(value, Mapping) else value
            match compiled:
                case TagsFilter(match_all=True):
                    all_tags[ordinal] = compiled.tags
                case TagsFilter() if compiled.tags:
                    tags[ordinal] = compiled.tags
                case RoutingKeyFilter():
                    patterns.extend((pattern, ordinal) for pattern in compiled.patterns)
                case TagsFilter() | EverythingFilter() | FunctionFilter():
                    always.append(ordinal)
                case _:
                    conditions.append((ordinal, compiled))
        tag_index = TagIndex.build(ordinals, tags, always)
        asking = _condition_index().build(conditions) if conditions else None
        index = cls(ordinals, tag_index, AllTagsIndex.build(all_tags), RoutingTrie(patterns), asking)
        if len(ordinals) == 1:
            index._only = compiled
            index._received, index._failed = Matched((ordinals[0],), ()), Matched((), (ordinals[0],))
        return index

    def match(self, message: FilterInput) -> Matched:
        """Return the subscriptions that match, and those whose filter failed. A failure does not affect the others."""
        if self._only is not None:
            try:
                return self._received if self._only.evaluate(message) is True else _NONE_MATCHED
            except FilterEvaluationError:
                return self._failed
        if self._has_patterns_alone:
            # Three times as fast as the constructor of a NamedTuple.
            return tuple.__new__(Matched, (self._routing.match(message.routing_key or ""), ()))
        bits, few = self._tags.match(message.tags) if self._has_tags else (0, ())
        routed = self._routing.match(message.routing_key or "") if self._has_patterns else ()
        found, errors = self._conditions.match(message) if self._conditions is not None else ([], [])
        if self._has_all_tags:
            found = [*found, *self._all_tags.match(message.tags)]
        failed = tuple(sorted(set(errors))) if errors else ()
        if bits:
            return Matched(self._ordinals_at(bits, chain(few, routed, found)), failed)
        if not found:
            if not few:
                return Matched(routed, failed)
            if not routed:
                return Matched(tuple(sorted(few)), failed)
        elif not few and not routed and not self._overlapping:
            found.sort()
            return Matched(tuple(found), failed)
        return Matched(tuple(sorted({*few, *routed, *found})), failed)

    def to_snapshot(self) -> bytes:
        """Return the index as bytes that every Python version can restore.

        The first line is parsed when the index is restored, and the other lines when a message first needs them.
        """
        parts = [part.as_rows() for part in (self._tags, self._all_tags, self._routing)]
        conditions, lines = (None, []) if self._conditions is None else self._conditions.snapshot()
        entries = b"\n".join(lines)
        head = [SNAPSHOT_FORMAT, len(entries), _runs(self._ordinals), *parts, conditions]
        return b"\n".join([json.dumps(head, separators=(",", ":")).encode(), entries])

    @classmethod
    def from_snapshot(cls, snapshot: bytes) -> TopicIndex:
        """Restore an index from its :meth:`to_snapshot`. Raises :class:`SnapshotError` for an invalid *snapshot*."""
        head, _, entries = snapshot.partition(b"\n")
        try:
            name, size, *parts = json.loads(head)
        except (ValueError, TypeError) as error:
            raise SnapshotError("not a snapshot of a topic index") from error
        if (name, size) != (SNAPSHOT_FORMAT, len(entries)):
            raise SnapshotError(f"a snapshot of format {name!r} with {len(entries)} of {size} bytes")
        runs, tags, all_tags, routing, conditions = parts
        return cls(
            [ordinal for first, count in runs for ordinal in range(first, first + count)],
            TagIndex.from_rows(*tags),
            AllTagsIndex(*all_tags),
            RoutingTrie.from_rows(*routing),
            None if conditions is None else _condition_index().from_rows(entries.split(b"\n"), *conditions),
        )

    def _ordinals_at(self, bits: int, others: Iterable[int]) -> tuple[int, ...]:
        """Return the ordinals at the positions of the set bits, and *others*, all sorted."""
        ordinals = self._ordinals
        marks = bytearray(flags_of(bits))
        marks.extend(bytes(len(ordinals) - len(marks)))
        for ordinal in others:
            marks[bisect_left(ordinals, ordinal)] = 1
        return tuple(compress(ordinals, marks))


def _condition_index() -> type[ConditionIndex]:
    """Return the class, which is imported when a filter first needs it."""
    from tagcast.filters.index.condition_index import ConditionIndex

    return ConditionIndex


def _runs(ordinals: Sequence[int]) -> list[list[int]]:
    """Return runs of neighbouring ordinals as [first, count].

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
