"""The index of a topic after a few changes: an older index, and a small index of the changed filters."""

from bisect import bisect_left
from collections.abc import Collection, Mapping

from tagcast.filters.compiled import CompiledFilter, FilterInput, FilterValue
from tagcast.filters.index.parted_index import PartedIndex
from tagcast.filters.index.topic_index import Matched, TopicIndex
from tagcast.filters.kinds import compile_filter

CHANGES_MAX = 32


class ChangedIndex:
    """An older index (*base*) with a few changes. It returns the same results as a rebuilt index, and is immutable.

    Results of *base* are ignored for the ordinals in *gone*, whose filters were added, changed or removed. *filters*
    has the added and changed filters by ordinal.

    >>> base = TopicIndex.build({1: None, 2: None})
    >>> index = with_changes(base, {3: None, 2: {"kind": "tags", "tags": ["apple"]}}, removed=[])
    >>> from types import SimpleNamespace
    >>> index.match(SimpleNamespace(tags=("imac",), routing_key=None, properties={})).ordinals
    (1, 3)
    """

    def __init__(
        self, base: TopicIndex | PartedIndex, gone: frozenset[int], filters: Mapping[int, CompiledFilter]
    ) -> None:
        self.base = base
        self.gone = gone
        self.filters = filters
        self._fresh = TopicIndex.build(filters)

    def match(self, message: FilterInput) -> Matched:
        """Return the ordinals of the subscriptions that match, and of the subscriptions whose filter failed."""
        before, now = self.base.match(message), self._fresh.match(message)
        return Matched(_merge(before.ordinals, self.gone, now.ordinals), _merge(before.errors, self.gone, now.errors))


Index = TopicIndex | PartedIndex | ChangedIndex


def with_changes(
    index: Index, changed: Mapping[int, FilterValue | None], removed: Collection[int]
) -> ChangedIndex | None:
    """Return *index* with the filters *changed*, by ordinal, and without the ordinals *removed*.

    Return None if more than :data:`CHANGES_MAX` ordinals differ from the older index. Then a new index must be built.
    """
    if isinstance(index, ChangedIndex):
        base, gone, filters = index.base, index.gone, dict(index.filters)
    else:
        base, gone, filters = index, frozenset[int](), dict[int, CompiledFilter]()
    gone |= {*changed, *removed}
    for ordinal in removed:
        filters.pop(ordinal, None)
    filters.update((ordinal, compile_filter(value)) for ordinal, value in changed.items())
    return ChangedIndex(base, gone, filters) if len(gone) <= CHANGES_MAX else None


def _merge(before: tuple[int, ...], gone: frozenset[int], now: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sorted ordinals of *now*, and those of *before* that are not in *gone*."""
    if not before:
        return now
    kept = list(before)
    for ordinal in gone:
        place = bisect_left(kept, ordinal)
        if place < len(kept) and kept[place] == ordinal:
            del kept[place]
    return tuple(sorted([*kept, *now])) if now else tuple(kept)
