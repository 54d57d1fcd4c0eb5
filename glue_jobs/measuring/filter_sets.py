"""Many filters on many messages: each distinct set of what the filters read is evaluated once, by the core's index."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql
from tagcast.archive.record import RecordKind
from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.event_pattern.scopes import ENVELOPE_NAMES, Scope
from tagcast.filters.event_pattern_filter import EventPatternFilter
from tagcast.filters.index.topic_index import TopicIndex
from tagcast.filters.kinds import RoutingKeyFilter, TagExpressionFilter, TagsFilter, compile_filter
from tagcast.filters.sql92_filter import Sql92Filter

from glue_jobs.erasing.contents import Part, parts_read
from glue_jobs.io.messages_read import Seen
from glue_jobs.io.storage import Archive

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Filter = Mapping[str, object] | None
READ = ("tags", "routing_key", "texts", "content", "gone")
"""What the filters read of a message, as columns that can be grouped; *texts* are the properties they name, *gone* the
parts that were taken out of it."""
COUNTS = "hour bigint, candidate int, matched bigint, failed bigint, unjudged bigint"
"""Not judged are messages by filters that read what is not there: a body that was not archived, a part that is gone."""


@dataclass(frozen=True, slots=True)
class FilterSet:
    """Candidate filters by number, and what they can read: nothing else of a message changes their verdicts."""

    filters: tuple[CompiledFilter, ...]
    tags: frozenset[str]
    properties: tuple[str, ...]
    reads_routing_key: bool
    reads_all_tags: bool
    reading_bodies: frozenset[int]
    reading: Mapping[Part, frozenset[int]]

    @classmethod
    def of(cls, filters: Iterable[Mapping[str, object] | None]) -> FilterSet:
        """Compile filters in their JSON form. Raises InvalidFilterError.

        >>> FilterSet.of([{"kind": "tags", "tags": ["a"]}, {"kind": "sql92", "expression": "p > 1"}]).properties
        ('p',)
        """
        compiled = tuple(compile_filter(each) for each in filters)
        tags: set[str] = set()
        properties: set[str] = set()
        for each in compiled:
            match each:
                case TagsFilter() | TagExpressionFilter():
                    tags |= each.tags
                case Sql92Filter():
                    nodes = each.expression.nodes
                    properties |= {str(node.value) for node in nodes if node.operator == "property"}
                case EventPatternFilter():
                    properties |= _properties_of(each)
        enveloped = any(isinstance(each, EventPatternFilter) and each.scope is Scope.ENVELOPE for each in compiled)
        keys = enveloped or any(isinstance(each, RoutingKeyFilter) for each in compiled)
        every = enveloped or any(isinstance(each, Sql92Filter) and each.reads_tags for each in compiled)
        read = [parts_read(each) for each in compiled]
        reading = {part: frozenset(number for number, parts in enumerate(read) if part in parts) for part in Part}
        names = tuple(sorted(properties))
        return cls(compiled, frozenset(tags), names, keys, every, reading[Part.BODY], reading)

    def blind(self, content: bytes | None, gone: Iterable[str]) -> frozenset[int]:
        """Return the filters that a message cannot be judged by: what they read is not there."""
        missing = [self.reading_bodies] if content is None else []
        return frozenset().union(*missing, *(self.reading[Part(part)] for part in gone))

    def index(self) -> TopicIndex:
        """Return all filters as the Lambdas have them."""
        return TopicIndex.build(dict(enumerate(self.filters)))

    def seen(
        self,
        tags: Iterable[str] | None,
        key: str | None,
        texts: Iterable[str | None] | None,
        content: bytes | None = None,
    ) -> Seen:
        """Return the message that a distinct set stands for."""
        pairs = zip(self.properties, texts or (), strict=False)
        return Seen(tuple(tags or ()), key, {name: text for name, text in pairs if text is not None}, content)


def _properties_of(filter: EventPatternFilter) -> set[str]:
    """Return the properties that a pattern may read: the name of one may have dots, as a path has."""
    match filter.scope:
        case Scope.BODY:
            return set()
        case Scope.ENVELOPE:
            return set(ENVELOPE_NAMES)
        case Scope.PROPERTIES:
            parts = [condition.path.split(".") for condition in filter.pattern.conditions]
            return {".".join(path[:size]) for path in parts for size in range(1, len(path) + 1)}


def distinct_sets(messages: DataFrame, filters: FilterSet, *keys: str) -> DataFrame:
    """Return how many messages there are of each distinct set of what *filters* read: (*keys, *READ, number).

    Tags that no filter names are left out, so that archives with many tags still repeat few sets; a filter that
    reads the tags as a property reads them all, in their order.
    """
    none = sql.array().cast("array<string>")
    tags = sql.array_sort(sql.coalesce("tags", none)) if filters.tags else none
    if filters.reads_all_tags:
        tags = sql.coalesce("tags", none)
    elif 0 < len(filters.tags) <= 1000:
        wanted = sql.array(*(sql.lit(tag) for tag in sorted(filters.tags)))
        tags = sql.array_sort(sql.array_intersect(sql.coalesce("tags", none), wanted))
    key = sql.col("routing_key") if filters.reads_routing_key else sql.lit(None).cast("string")
    content = sql.coalesce(sql.unbase64("body_base64"), sql.encode("body", "UTF-8")) if filters.reading_bodies else None
    texts = [sql.try_element_at("properties", sql.lit(name)) for name in filters.properties]
    read_parts = sql.array(*(sql.lit(part.value) for part, reading in filters.reading.items() if reading))
    gone = sql.sort_array(sql.array_intersect(sql.map_keys("hashes"), read_parts))
    read = messages.select(
        *keys,
        tags.alias("tags"),
        key.alias("routing_key"),
        (sql.array(*texts) if texts else none).alias("texts"),
        (sql.lit(None).cast("binary") if content is None else content).alias("content"),
        (sql.coalesce(gone, none) if any(filters.reading.values()) else none).alias("gone"),
    )
    return read.groupBy(*keys, *READ).agg(sql.count("*").alias("number"))


def counted(batches: Iterator[pa.RecordBatch], filters: FilterSet) -> Iterator[pa.RecordBatch]:
    """Evaluate batches of distinct sets; yield counts by hour and candidate, one batch for each batch."""
    import pyarrow as pa

    index = filters.index()
    for batch in batches:
        matched: Counter[tuple[int, int]] = Counter()
        failed: Counter[tuple[int, int]] = Counter()
        unjudged: Counter[tuple[int, int]] = Counter()
        columns = (batch.column(batch.schema.names.index(name)).to_pylist() for name in ("hour", *READ, "number"))
        for hour, tags, key, texts, content, gone, number in zip(*columns, strict=True):
            found = index.match(filters.seen(tags, key, texts, content))
            blind = filters.blind(content, gone)
            for candidate in frozenset(found.ordinals) - blind if blind else found.ordinals:
                matched[hour, candidate] += number
            for candidate in frozenset(found.errors) - blind:
                failed[hour, candidate] += number
            for candidate in blind:
                unjudged[hour, candidate] += number
        keys = sorted({*matched, *failed, *unjudged})
        rows = [(hour, one, matched[hour, one], failed[hour, one], unjudged[hour, one]) for hour, one in keys]
        transposed: list[Any] = list(zip(*rows, strict=True)) or [()] * 5
        types = (pa.int64(), pa.int32(), pa.int64(), pa.int64(), pa.int64())
        arrays = [pa.array(values, kind) for values, kind in zip(transposed, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, ["hour", "candidate", "matched", "failed", "unjudged"])


def matches(messages: DataFrame, filters: FilterSet) -> DataFrame:
    """Return how many *messages* (with a column ``hour``) each filter matches in each hour: (``COUNTS``)."""
    shared = messages.sparkSession.sparkContext.broadcast(filters)
    sets = distinct_sets(messages, filters, "hour")
    counts = sets.mapInArrow(lambda batches: counted(iter(batches), shared.value), COUNTS)
    return counts.groupBy("hour", "candidate").agg(
        *(sql.sum(name).alias(name) for name in ("matched", "failed", "unjudged"))
    )


def tag_matches(messages: DataFrame, tags_of: Mapping[int, Iterable[str]]) -> DataFrame:
    """Return the same for filters that have tags, without Python workers: the cross-check of :func:`matches`.

    A pair of message and filter is kept at the first tag that they have in common, so that no pair is counted twice
    and none has to be shuffled.
    """
    spark = messages.sparkSession
    rows = [(tag, number, sorted(set(tags))) for number, tags in tags_of.items() for tag in set(tags)]
    wanted = spark.createDataFrame(rows, "tag string, candidate int, wanted array<string>")
    exploded = messages.select("hour", sql.array_distinct("tags").alias("tags"))
    exploded = exploded.select("hour", "tags", sql.explode("tags").alias("tag"))
    pairs = exploded.join(sql.broadcast(wanted), "tag")
    first = sql.get(sql.array_intersect("tags", "wanted"), sql.lit(0)) == sql.col("tag")
    return pairs.where(first).groupBy("hour", "candidate").agg(sql.count("*").alias("matched"))


def read_filters(text: str) -> list[tuple[str, Mapping[str, object] | None]]:
    """Return the candidates of a file: one JSON object with name and filter on each line. Raises ValueError.

    >>> read_filters('{"name": "a", "filter": null}')
    [('a', None)]
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            value = json.loads(line)
            if not isinstance(value, dict) or not isinstance(value.get("name"), str) or "filter" not in value:
                raise ValueError(f"line {number}: an object with name and filter is expected")
            found.append((value["name"], value["filter"]))
    return found


def current_filter(archive: Archive, topic: str, subscription: str, end_at: int) -> Filter:
    """Return the newest filter of a subscription before *end_at*. Raises LookupError if there is none."""
    parts = archive.records(RecordKind.SUBSCRIPTIONS).where("part = 'filter'")
    mine = parts.where((sql.col("topic") == topic) & (sql.col("subscription") == subscription))
    rows = mine.where(sql.col("changed_at") < end_at).orderBy(sql.desc("ordinal"), sql.desc("version")).take(1)
    if not rows:
        raise LookupError(f"the archive has no filter of {topic}/{subscription}")
    found: Filter = None if rows[0].filter is None else json.loads(rows[0].filter)
    return found
