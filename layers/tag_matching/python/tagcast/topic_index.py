"""All filters of a topic in one structure, so that the time per message follows the matches.

The plain rule, each filter's ``evaluate`` one by one, is what this must agree with; the tests compare the two.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress

from tagcast.compiled_filter import CompiledFilter, FilterInput, FilterValue
from tagcast.errors import TagcastError
from tagcast.filters import compile_filter
from tagcast.routing_key import RoutingTrie
from tagcast.routing_key_filter import RoutingKeyFilter
from tagcast.sql92 import CompiledExpression
from tagcast.sql92_filter import Sql92Filter
from tagcast.sql92_index import Sql92Index
from tagcast.tag_filters import TagExpressionFilter, TagsFilter
from tagcast.tag_index import TagIndex

SNAPSHOT_FORMAT = "tagcast-topic-index-1"
_ONES = bytes.maketrans(b"01", b"\x00\x01")


class SnapshotError(TagcastError):
    """A snapshot of another format: the index must be built from the subscriptions."""


@dataclass(frozen=True, slots=True)
class Matched:
    """The ordinals of subscriptions that receive a message, and of those whose filter failed; both sorted."""

    ordinals: tuple[int, ...]
    errors: tuple[int, ...]


class TopicIndex:
    """Built once per version of a topic's subscriptions; it is not changed afterwards.

    >>> index = TopicIndex.build({4: {"kind": "tags", "tags": ["apple"]}, 9: None})
    >>> from types import SimpleNamespace
    >>> index.match(SimpleNamespace(tags=("imac",), routing_key=None, properties={}))
    Matched(ordinals=(9,), errors=())
    """

    def __init__(self, ordinals: list[int], tags: TagIndex, routing: RoutingTrie, expressions: Sql92Index) -> None:
        self._ordinals = ordinals
        self._tags = tags
        self._routing = routing
        self._expressions = expressions

    @classmethod
    def build(cls, filters: Mapping[int, FilterValue | CompiledFilter | None]) -> "TopicIndex":
        """Index the filters, in their JSON form or compiled, by the ordinals of their subscriptions."""
        ordinals = sorted(filters)
        tags: dict[int, frozenset[str]] = {}
        always: list[int] = []
        patterns: list[tuple[str, int]] = []
        expressions: list[tuple[int, CompiledExpression]] = []
        for position, ordinal in enumerate(ordinals):
            value = filters[ordinal]
            compiled = compile_filter(value) if value is None or isinstance(value, Mapping) else value
            match compiled:
                case TagsFilter() | TagExpressionFilter() if compiled.tags:
                    tags[position] = compiled.tags
                case RoutingKeyFilter():
                    patterns.extend((pattern, position) for pattern in compiled.patterns)
                case Sql92Filter():
                    expressions.append((position, compiled.expression))
                case _:
                    always.append(position)
        tag_index = TagIndex.build(len(ordinals), tags, always)
        return cls(ordinals, tag_index, RoutingTrie(patterns), Sql92Index.build(expressions))

    def match(self, message: FilterInput) -> Matched:
        """Who receives the message. An error never delivers and never hides another's match."""
        bits, few = self._tags.match(message.tags)
        few.update(self._routing.match(message.routing_key or ""))
        found, errors = self._expressions.match(message.properties)
        few.update(found)
        ordinals = self._ordinals
        failed = tuple(ordinals[position] for position in sorted(set(errors))) if errors else ()
        if not bits:
            return Matched(tuple([ordinals[position] for position in sorted(few)]), failed)
        marks = bytearray(bin(bits)[:1:-1].encode().translate(_ONES))
        if few:
            marks.extend(bytes(max(0, len(ordinals) - len(marks))))
            for position in few:
                marks[position] = 1
        return Matched(tuple(compress(ordinals, marks)), failed)

    def to_snapshot(self) -> bytes:
        """The index as data (JSON): no code, and independent of the Python version."""
        parts = [self._tags.as_rows(), self._routing.as_rows(), self._expressions.as_rows()]
        return json.dumps([SNAPSHOT_FORMAT, self._ordinals, *parts], separators=(",", ":")).encode()

    @classmethod
    def from_snapshot(cls, snapshot: bytes) -> "TopicIndex":
        """The index that :meth:`to_snapshot` described. Raises :class:`SnapshotError` for another format."""
        try:
            name, ordinals, tags, routing, expressions = json.loads(snapshot)
        except ValueError as error:
            raise SnapshotError("not a snapshot of a topic index") from error
        if name != SNAPSHOT_FORMAT:
            raise SnapshotError(f"a snapshot of format {name!r}")
        return cls(
            ordinals,
            TagIndex.from_rows(*tags),
            RoutingTrie.from_rows(*routing),
            Sql92Index.from_rows(*expressions),
        )
