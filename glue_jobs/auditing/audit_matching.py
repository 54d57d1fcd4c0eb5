"""Finds wrong and missed matches: evaluates each message again, with the core's index and the filters of its time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from tagcast.filters.index.topic_index import TopicIndex

from glue_jobs.auditing.audit_entries import HOUR_MS, Terms
from glue_jobs.auditing.filter_set import FilterSet
from glue_jobs.auditing.history import FilterInForce
from glue_jobs.erasing.contents import Part, compile_archived, parts_read
from glue_jobs.io.messages_read import BODIES, Known, batch_of, filter_keys, message_of, tuples_of

RESULT = "kind string, topic string, message_id string, ordinal int, at bigint, number bigint"
VIOLATIONS = {
    "not_in_filter": "it has a delivery, and the filter of its time does not match it",
    "missed": "the filter of its time matches it, and it has no delivery",
    "no_filter": "it has a delivery, and the archive has no filter of that time for this subscription",
    "outdated": "it was matched without a filter that had been in force for an hour",
}
COUNTED = (
    *("evaluated", "matches_judged_later", "matches_of_unknown_filters", "misses_not_provable", "replays"),
    *("unjudged_without_body", "unreadable_filters", "erased", "bodies_gone", "properties_gone"),
)
FORGOTTEN = ("gone", "matching", "erasure")
"""Columns of an erased message: its erased parts, the filters that matched before erasure, and the erasure's name."""
Key = TypeVar("Key")
REMEMBERED_MAX = 200_000
SETS_REMEMBERED_MAX = 64
"""The maximum number of cached filter sets of a topic, one for each topic version. Neighbouring messages need few."""
Judged = tuple[Known, int, int, tuple[int, ...], bool]
"""The values that decide the verdict on a message without erased parts, besides its acceptance time.

These are the parts that filters read, the topic's version, the number of filters deleted over an hour earlier, the
message's ordinals, and whether the message is a replay.
"""


def _remember(cache: dict[Key, frozenset[int]], key: Key, places: frozenset[int]) -> frozenset[int]:
    """Add *places* to a bounded cache, and return them."""
    if len(cache) >= SETS_REMEMBERED_MAX:
        cache.clear()
    cache[key] = places
    return places


class TopicFilters:
    """All filter versions of a topic in one index. :meth:`in_force` selects the filters of one topic version.

    Methods return the indices of filter versions in *filters*. *known* has the parts of a message that filters read.
    """

    def __init__(self, filters: Sequence[FilterInForce]) -> None:
        self.filters = filters
        compiled = {place: compile_archived(each.value) for place, each in enumerate(filters)}
        readable = {place: each for place, each in compiled.items() if each is not None}
        self.unreadable = frozenset(compiled.keys() - readable.keys())
        self.reading_bodies = frozenset(place for place, each in readable.items() if each.reads_body)
        self._reads = {place: parts_read(each) for place, each in compiled.items()}
        self._index = TopicIndex.build(readable)
        self._remembered: dict[Known, tuple[int, ...]] = {}
        self.clean: dict[Judged, Counter[str]] = {}
        """The counts of a message without violations, by its parts; further messages with equal parts reuse them."""
        self._in_force: dict[int, frozenset[int]] = {}
        self._removals = sorted(each.removed_at for each in filters if each.removed_at is not None)
        self._removed: dict[int, frozenset[int]] = {}
        self._reading: dict[frozenset[str], frozenset[int]] = {}
        self._places: dict[int, list[int]] = {}
        for place, each in enumerate(filters):
            self._places.setdefault(each.ordinal, []).append(place)
        self._changes = sorted(each.changed_at for each in filters)
        by_since = sorted(((each.since, each.changed_at, each.ordinal) for each in filters), reverse=True)
        self._oldest_since = list(accumulate(((at, ordinal) for _, at, ordinal in by_since), min))[::-1]
        self._since = [since for since, _, _ in reversed(by_since)]
        self._to_audit: dict[tuple[int, int, int], frozenset[int]] = {}

    def matching(self, known: Known) -> tuple[int, ...]:
        """Return the indices of all filter versions that match the message. A verdict on a body is not cached."""
        known = self.read_of(known)
        if known[3] is not None:
            return self._index.match(message_of(known)).ordinals
        found = self._remembered.get(known)
        if found is None:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            found = self._remembered[known] = self._index.match(message_of(known)).ordinals
        return found

    def read_of(self, known: Known) -> Known:
        """Return the parts *known* of a message; leave out the body if no filter reads bodies."""
        return known if self.reading_bodies else (*known[:3], None)

    def unread(self, known: Known) -> frozenset[int]:
        """Return the indices of the filters that have no verdict on the message.

        This release cannot read these filters, or they read the body and *known* has no body.
        """
        return self.unreadable | self.reading_bodies if known[3] is None else self.unreadable

    def reading(self, parts: Collection[str]) -> frozenset[int]:
        """Return the indices of the filters that read one of the *parts* of a message."""
        known = frozenset(parts)
        if known not in self._reading:
            self._reading[known] = frozenset(p for p, read in self._reads.items() if not read.isdisjoint(known))
        return self._reading[known]

    def filters_to_audit(
        self, version: int, matched: Collection[int], accepted_at: int, expires_at: int
    ) -> frozenset[int]:
        """Return the indices of the filters whose verdict on a message an audit may need.

        These filters were in force at the topic's *version*. Younger filters are included, too, because a new group
        gets late entries while the message lives. The filter of a subscription that was deleted over an hour before the
        acceptance is included only if *matched* has the subscription's ordinal.
        """
        removed = self.removed_before(accepted_at - HOUR_MS)
        key = (version, len(removed), bisect_right(self._changes, expires_at + HOUR_MS))
        found = self._to_audit.get(key)
        if found is None:
            alive = (p for p, each in enumerate(self.filters) if each.changed_at <= expires_at + HOUR_MS)
            found = frozenset(p for p in alive if version < self.filters[p].until and p not in removed)
            _remember(self._to_audit, key, found)
        mine = (p for ordinal in matched for p in self._places.get(ordinal, ()) if p in removed)
        of_matched = self.in_force(version).intersection(mine)
        return found | of_matched if of_matched else found

    def names_of(
        self, known: Known, gone: Collection[str], going: Collection[str], audited: frozenset[int]
    ) -> list[str]:
        """Return the names of the filters to record when the parts *going* of a message are erased.

        A filter in *audited* is recorded if it reads one of these parts and matches the message. A name begins with
        ``?`` if the filter cannot be evaluated. *gone* has the parts that were erased earlier. Filters that read one of
        those are left out, because the earlier erasure recorded them.
        """
        places, unread = (self.reading(going) & audited) - self.reading(gone), self.unread(known)
        matching = places.intersection(self.matching(known)) - unread
        return sorted([*(self._name(p) for p in matching), *(f"?{self._name(p)}" for p in places & unread)])

    def verdicts(
        self, known: Known, gone: Collection[str], names: Collection[str]
    ) -> tuple[Collection[int], frozenset[int]]:
        """Return the indices of the filters that match, and of the filters whose verdict is unknown.

        *gone* has the erased parts. For filters that read one of them, the recorded *names* decide (:meth:`names_of`).
        """
        if not gone:
            return self.matching(known), self.unread(known)
        noted, names = self.reading(gone), frozenset(names)
        places = {p for p in noted if self._name(p) in names} | {*self.matching(known)} - noted
        undecided = frozenset(p for p in noted if f"?{self._name(p)}" in names) | self.unread(known) - noted
        return places, undecided | (self.unreadable - places)

    def _name(self, place: int) -> str:
        return self.filters[place].name

    def in_force(self, version: int) -> frozenset[int]:
        """Return the indices of the filters in force at a version of the topic."""
        found = self._in_force.get(version)
        if found is None:
            places = (place for place, each in enumerate(self.filters) if each.since <= version < each.until)
            found = _remember(self._in_force, version, frozenset(places))
        return found

    def find_outdated(self, version: int, accepted_at: int) -> Sequence[int]:
        """Return the ordinal of a filter that is newer than the topic's *version*, but was an hour old at acceptance.

        The result is empty if no filter is. A publish reads the version at most minutes before it accepts a message. So
        the publish should have evaluated such a filter.
        """
        place = bisect_right(self._since, version)
        return [
            ordinal
            for changed_at, ordinal in self._oldest_since[place : place + 1]
            if changed_at < accepted_at - HOUR_MS
        ]

    def removed_before(self, at: int) -> frozenset[int]:
        """Return the indices of the filters whose subscriptions were deleted before *at* (milliseconds)."""
        number = bisect_left(self._removals, at)
        found = self._removed.get(number)
        if found is None:
            instants = ((place, each.removed_at) for place, each in enumerate(self.filters))
            places = frozenset(place for place, gone in instants if gone is not None and gone < at)
            found = _remember(self._removed, number, places)
        return found


class FiltersByTopic(dict[str, TopicFilters]):
    """The filters of each topic. A topic's index is built on first use; a topic without filters gets an empty index."""

    def __init__(self, filters: Mapping[str, Sequence[FilterInForce]]) -> None:
        super().__init__()
        self._filters = filters

    def __missing__(self, topic: str) -> TopicFilters:
        found = self[topic] = TopicFilters(self._filters.get(topic, ()))
        return found


def judge_batches(
    batches: Iterator[pa.RecordBatch], filters: dict[str, list[FilterInForce]], terms: Terms
) -> Iterator[pa.RecordBatch]:
    """Evaluate batches of messages again. For each batch, yield its violations and its counts as rows of ``RESULT``."""
    topics = FiltersByTopic(filters)
    for batch in batches:
        rows: list[tuple[Any, ...]] = []
        counts, clean = Counter[str](), Counter[tuple[str, Judged]]()
        others = ("topic", "message_id", "accepted_at", "subscriptions_version", "replay_of", *FORGOTTEN)
        columns = [batch.column(name).to_pylist() for name in others]
        columns.append(tuples_of(batch.column("matched")))
        for known, (topic, message_id, at, version, replay_of, gone, noted, erasure, matched) in zip(
            filter_keys(batch), zip(*columns, strict=True), strict=True
        ):
            known_filters = topics[topic]
            rows.extend(
                ("outdated", topic, message_id, each, at, 1) for each in known_filters.find_outdated(version, at)
            )
            known = known_filters.read_of(known)
            key = (known, version, len(known_filters.removed_before(at - HOUR_MS)), matched, replay_of is not None)
            if not gone and erasure is None and key in known_filters.clean:
                clean[topic, key] += 1
                continue
            counts["erased"] += erasure is not None
            for part in gone or () if erasure is None else ():
                counts["bodies_gone" if part == Part.BODY else "properties_gone"] += 1
            found, counted = known_filters.verdicts(known, gone or (), noted or ()), Counter[str]()
            wrong = _judge(known_filters, found, version, set(matched), at, replay_of is not None, terms, counted)
            rows += [(kind, topic, message_id, ordinal, at, 1) for kind, ordinal in wrong]
            counts.update(counted)
            by_time = counted["misses_not_provable"] or counted["matches_of_unknown_filters"]
            if not wrong and not gone and not by_time and known[3] is None:
                known_filters.clean[key] = counted
        for (topic, key), number in clean.items():
            for kind, each in topics[topic].clean[key].items():
                counts[kind] += each * number
        rows += [(kind, None, None, None, None, number) for kind, number in counts.items()]
        named = {"kind": "string", "topic": "string", "message_id": "string"}
        yield batch_of(rows, **named, ordinal="int32", at="int64", number="int64")
        for every in topics.values():
            if len(every.clean) >= REMEMBERED_MAX:
                every.clean.clear()


def _judge(
    known_filters: TopicFilters,
    found: tuple[Collection[int], frozenset[int]],
    version: int,
    matched: set[int],
    at: int,
    is_replay: bool,
    terms: Terms,
    counts: Counter[str],
) -> list[tuple[str, int]]:
    """Return the violations (kind, ordinal) of one message, and update *counts*.

    *found* is the result of :meth:`TopicFilters.verdicts`. A subscription that was deleted more than an hour before the
    message has no filter.
    """
    (places, unread), removed = found, known_filters.removed_before(at - HOUR_MS)
    force = known_filters.in_force(version) - removed
    unjudged = {known_filters.filters[place].ordinal for place in unread & force}
    unreadable = {known_filters.filters[place].ordinal for place in unread & force & known_filters.unreadable}
    counts["unreadable_filters"] += len(unreadable)
    counts["unjudged_without_body"] += len(unjudged - unreadable)
    expected = {known_filters.filters[place].ordinal: place for place in places if place in force}
    by_ordinal = {known_filters.filters[place].ordinal for place in force}
    wrong = []
    for ordinal in matched:
        if ordinal not in by_ordinal and at > terms.as_of:
            counts["matches_of_unknown_filters"] += 1
        elif ordinal not in by_ordinal:
            wrong.append(("no_filter", ordinal))
        elif ordinal in unjudged:
            continue
        elif ordinal not in expected:
            wrong.append(("not_in_filter", ordinal))
        elif known_filters.filters[expected[ordinal]].is_function:
            counts["matches_judged_later"] += 1
    counts["evaluated"] += len(by_ordinal) - len(unjudged)
    if is_replay:
        counts["replays"] += 1
        return wrong
    for ordinal in expected.keys() - matched:
        gone = known_filters.filters[expected[ordinal]].removed_at
        if gone is not None and at + terms.skew_ms >= gone:
            counts["misses_not_provable"] += 1
        else:
            wrong.append(("missed", ordinal))
    return wrong


def judge_messages(messages: DataFrame, filters: dict[str, list[FilterInForce]], terms: Terms) -> DataFrame:
    """Return the violations and the counts of *messages*, one row for each violation or count (``RESULT``)."""
    shared = messages.sparkSession.sparkContext.broadcast(filters)
    columns = ("topic", "message_id", "accepted_at", "subscriptions_version", "matched", "replay_of")
    forgotten = (sql.map_keys("hashes").alias("gone"), "matching", "erasure")
    values = {each.filter: each.value for several in filters.values() for each in several}
    reading = FilterSet.of_compiled(filter(None, map(compile_archived, values.values())))
    key = sql.col("routing_key") if reading.reads_routing_key else sql.lit(None).cast("string")
    known = (reading.tags_read().alias("tags"), key.alias("routing_key"), reading.properties_read().alias("properties"))
    read = messages.select(*columns, *forgotten, *known, *(BODIES if reading.reading_bodies else ()))
    return read.mapInArrow(lambda batches: judge_batches(iter(batches), shared.value, terms), RESULT)
