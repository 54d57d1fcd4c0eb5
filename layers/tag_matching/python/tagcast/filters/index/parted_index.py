"""The index of a topic in parts. Each part is built, stored and changed on its own.

Building the index of a hundred thousand conditions over properties takes half a minute of CPU. Each part has a range of
ordinals. So after a change of one subscription, usually only one part is built again.
"""

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

from tagcast.filters.compiled import FilterInput, FilterValue
from tagcast.filters.index.topic_index import Matched, SnapshotError, TopicIndex

SNAPSHOT_FORMAT = "tagcast-parted-index-1"
_EFFORTS = {"sql92": 10, "event_pattern": 3}
"""The cost of indexing one character of a filter, by kind. Other kinds cost 1, which is about 0.2 µs of CPU."""
_VALUE_EFFORT = 30
"""The cost of indexing one value in one alternative of an event pattern. A short pattern may have thousands of them."""


class IndexPart(NamedTuple):
    """The *filters* of one part, by ordinal, before their index is built. *digest* identifies ordinals and filters."""

    digest: str
    filters: Mapping[int, FilterValue | None]


class PartedIndex:
    """An index in parts, which are sorted by ordinal. It returns the same results as one index of all filters.

    >>> parts = {1: None, 2: None}, {7: {"kind": "tags", "tags": ["apple"]}, 9: None}
    >>> from types import SimpleNamespace
    >>> message = SimpleNamespace(tags=("imac",), routing_key=None, properties={})
    >>> PartedIndex([TopicIndex.build(each) for each in parts]).match(message).ordinals
    (1, 2, 9)
    """

    def __init__(self, parts: Sequence[TopicIndex]) -> None:
        self._parts = parts

    def match(self, message: FilterInput) -> Matched:
        """Return the ordinals of the subscriptions that match, and of the subscriptions whose filter failed."""
        found = [part.match(message) for part in self._parts]
        ordinals = chain.from_iterable(each.ordinals for each in found)
        return Matched(tuple(ordinals), tuple(chain.from_iterable(each.errors for each in found)))


def parts_of(filters: Mapping[int, FilterValue | None], effort_max: int) -> list[IndexPart]:
    """Divide *filters* into parts that each cost at most *effort_max* to index. A part with one filter may cost more.

    The range of all ordinals is halved, and each half again, until a range costs at most *effort_max*. So a change of
    one filter rarely changes the bounds of other parts. Ranges without filters have no part.

    >>> [list(part.filters) for part in parts_of({1: None, 5: None, 6: None, 7: None, 8: None}, effort_max=20)]
    [[1], [5], [6, 7], [8]]
    """
    ordinals = sorted(filters)
    texts = [json.dumps([ordinal, filters[ordinal]], sort_keys=True) for ordinal in ordinals]
    efforts = [_effort(filters[ordinal], text) for ordinal, text in zip(ordinals, texts, strict=True)]
    until = list(accumulate(efforts, initial=0))

    def divide(first: int, span: int) -> Iterator[slice]:
        here = slice(bisect_left(ordinals, first), bisect_left(ordinals, first + span))
        if until[here.stop] - until[here.start] <= effort_max or span == 1:
            yield here
        else:
            yield from divide(first, span // 2)
            yield from divide(first + span // 2, span // 2)

    root = 1 << max(ordinals, default=0).bit_length()
    return [
        IndexPart(
            hashlib.sha256("\n".join(texts[here]).encode()).hexdigest(),
            {ordinal: filters[ordinal] for ordinal in ordinals[here]},
        )
        for here in divide(0, root)
        if here.start < here.stop
    ]


def unindexed_characters(value: FilterValue | None) -> int:
    """Return the length of an SQL92 expression that the index cannot decide by lookups, or 0 for every other filter.

    The index evaluates such an expression as a whole. So each process that publishes compiles the expression, and keeps
    it in memory. A character takes up to 160 bytes, and 3 µs of CPU in a new process.

    >>> unindexed_characters({"kind": "sql92", "expression": "a = 1 OR b > 2"})
    0
    >>> unindexed_characters({"kind": "sql92", "expression": "a < b"})
    5
    """
    if value is None or value.get("kind") != "sql92":
        return 0
    from tagcast.filters.index.sql92_index import is_indexed  # The package is loaded for its first filter.
    from tagcast.filters.sql92_filter import compile_sql92_filter

    expression = compile_sql92_filter(value).expression
    return 0 if is_indexed(expression) else len(expression.text)


def join_snapshots(snapshots: Sequence[bytes]) -> bytes:
    """Return one snapshot of a parted index from the *snapshots* of its parts, which are sorted by ordinal."""
    head = json.dumps([SNAPSHOT_FORMAT, [len(each) for each in snapshots]], separators=(",", ":"))
    return b"\n".join([head.encode(), b"".join(snapshots)])


def from_snapshot(snapshot: bytes) -> TopicIndex | PartedIndex:
    """Restore an index from the snapshot of one index or of :func:`join_snapshots`.

    Raises :class:`SnapshotError` if *snapshot* is invalid or has another format.
    """
    head, _, rest = snapshot.partition(b"\n")
    try:
        name, *sizes = json.loads(head)
    except (ValueError, TypeError) as error:
        raise SnapshotError("not a snapshot of a topic index") from error
    if name != SNAPSHOT_FORMAT:
        return TopicIndex.from_snapshot(snapshot)
    ends = list(accumulate(*sizes))
    starts = [0, *ends]
    return PartedIndex([TopicIndex.from_snapshot(rest[start:end]) for start, end in zip(starts, ends, strict=False)])


def _effort(value: FilterValue | None, text: str) -> int:
    kind = None if value is None else str(value.get("kind"))
    effort = len(text) * _EFFORTS.get(str(kind), 1)
    if value is not None and isinstance(pattern := value.get("pattern"), Mapping):
        effort += count_values(pattern)[1] * _VALUE_EFFORT
    return effort


def count_values(pattern: Mapping[str, object]) -> tuple[int, int]:
    """Return the number of alternatives of an event pattern, and the sum of the numbers of values in each alternative.

    >>> count_values({"$or": [{"a": [1, 2]}, {"b": [3], "c": [{"anything-but": [4, 5]}]}], "d": {"e": [6]}})
    (2, 7)
    """
    alternatives, values = 1, 0
    for name, value in pattern.items():
        if name == "$or" and isinstance(value, list):
            parts = [count_values(each) for each in value if isinstance(each, Mapping)]
        elif isinstance(value, Mapping):
            parts = [count_values(value)]
        else:
            parts = [(1, _size(value))]
        # Each alternative so far is combined with each alternative of this member.
        count = sum(part for part, _ in parts) or 1
        alternatives, values = alternatives * count, values * count + alternatives * sum(size for _, size in parts)
    return alternatives, values


def _size(value: object) -> int:
    """Return the number of scalars in *value*, at any depth of lists and objects."""
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list) else 1
