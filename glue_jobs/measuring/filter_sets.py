"""Evaluates many filters on many messages by the core's index, once for each distinct set of values that filters read.

These values are the tags, the routing key, the named properties and the body of a message.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from tagcast.archive.record import RecordKind
from tagcast.errors import InvalidFilterError
from tagcast.filters.index.topic_index import TopicIndex
from tagcast.filters.kinds import compile_filter

from glue_jobs.auditing.filter_set import FilterSet
from glue_jobs.io.messages_read import batch_of
from glue_jobs.io.storage import Archive

Filter = Mapping[str, object] | None
READ = ("tags", "routing_key", "texts", "content", "gone")
"""The parts of a message that the filters read, as columns to group by.

*texts* are the properties that the filters name, and *gone* are the erased parts.
"""
COUNTS = "hour bigint, candidate int, matched bigint, failed bigint, unjudged bigint"
"""The columns of counts. A message is unjudged if a part that the filter reads is not archived, or erased."""


def distinct_sets(messages: DataFrame, filters: FilterSet, *keys: str) -> DataFrame:
    """Return the number of messages with each distinct set of parts that *filters* read: (*keys, *READ, number).

    Tags that no filter names are dropped, so that there are fewer distinct sets. If a filter reads all tags, all tags
    stay, in the message's order.
    """
    none = sql.array().cast("array<string>")
    tags = filters.tags_read()
    if not filters.reads_all_tags:
        tags = sql.array_sort(sql.array_distinct(tags))
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


def count_matches(batches: Iterator[pa.RecordBatch], filters: FilterSet) -> Iterator[pa.RecordBatch]:
    """Evaluate the filters on batches of :func:`distinct_sets`, and yield batches of counts by hour and candidate."""
    index = TopicIndex.build(dict(enumerate(filters.filters)))
    for batch in batches:
        matched: Counter[tuple[int, int]] = Counter()
        failed: Counter[tuple[int, int]] = Counter()
        unjudged: Counter[tuple[int, int]] = Counter()
        columns = (batch.column(name).to_pylist() for name in ("hour", *READ, "number"))
        for hour, tags, key, texts, content, gone, number in zip(*columns, strict=True):
            found = index.match(filters.message_of(tags, key, texts, content))
            left_out = filters.find_unjudged(content, gone)
            for candidate in frozenset(found.ordinals) - left_out if left_out else found.ordinals:
                matched[hour, candidate] += number
            for candidate in frozenset(found.errors) - left_out:
                failed[hour, candidate] += number
            for candidate in left_out:
                unjudged[hour, candidate] += number
        keys = sorted({*matched, *failed, *unjudged})
        rows = [(hour, one, matched[hour, one], failed[hour, one], unjudged[hour, one]) for hour, one in keys]
        yield batch_of(rows, hour="int64", candidate="int32", matched="int64", failed="int64", unjudged="int64")


def matches(messages: DataFrame, filters: FilterSet) -> DataFrame:
    """Return, by ``hour`` and filter, the numbers of *messages* that matched, failed, or got no verdict (``COUNTS``).

    A message gets no verdict if a part that the filter reads was erased or not archived.
    """
    shared = messages.sparkSession.sparkContext.broadcast(filters)
    sets = distinct_sets(messages, filters, "hour")
    counts = sets.mapInArrow(lambda batches: count_matches(iter(batches), shared.value), COUNTS)
    return counts.groupBy("hour", "candidate").agg(
        *(sql.sum(name).alias(name) for name in ("matched", "failed", "unjudged"))
    )


def read_filters(text: str) -> list[tuple[str, Mapping[str, object] | None]]:
    """Return the candidates in *text*: a JSON object with name and filter on each line. Raises ValueError.

    >>> read_filters('{"name": "a", "filter": null}')
    [('a', None)]
    """
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            value = json.loads(line)
            if not isinstance(value, dict) or not isinstance(value.get("name"), str) or "filter" not in value:
                raise ValueError(f"line {number}: an object with name and filter is expected")
            found.append((value["name"], value["filter"]))
    return found


def current_filter(archive: Archive, topic: str, subscription: str, end_at: int) -> Filter:
    """Return a subscription's newest filter before *end_at* (ms). A filter of None matches everything.

    Raises LookupError if the archive has none, or if this release cannot read the filter.
    """
    parts = archive.records(RecordKind.SUBSCRIPTIONS).where("part = 'filter'")
    mine = parts.where((sql.col("topic") == topic) & (sql.col("subscription") == subscription))
    rows = mine.where(sql.col("changed_at") < end_at).orderBy(sql.desc("ordinal"), sql.desc("version")).take(1)
    if not rows:
        raise LookupError(f"the archive has no filter of {topic}/{subscription}")
    found: Filter = None if rows[0].filter is None else json.loads(rows[0].filter)
    try:
        compile_filter(found)
    except InvalidFilterError as fault:
        raise LookupError(f"this release cannot read the filter of {topic}/{subscription}: {fault}") from None
    return found
