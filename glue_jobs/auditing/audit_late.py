"""Checks late entries: each was requested by its group, and matches the filter version that it names."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from tagcast.errors import FilterEvaluationError
from tagcast.filters.compiled import CompiledFilter

from glue_jobs.auditing.audit_entries import ENTRY, violation
from glue_jobs.auditing.history import LANE
from glue_jobs.erasing.contents import compile_archived, parts_read
from glue_jobs.io.materialised import materialise
from glue_jobs.io.messages_read import BODIES, Known, filter_keys, message_of


def _matches(filter: str | None, known: Known) -> bool | None:
    """Return whether *filter* matches, False if its evaluation fails.

    Return None if the filter is unreadable, or reads a body that was not archived.
    """
    seen, compiled = message_of(known), _compile(filter)
    if compiled is None or (compiled.reads_body and seen.body is None):
        return None
    with suppress(FilterEvaluationError):
        return compiled.evaluate(seen) is True
    return False


def _recorded_verdict(name: str, matching: Collection[str]) -> bool | None:
    """Return the verdict of filter version *name* that an erasure recorded in *matching*; None if it recorded none."""
    return None if f"?{name}" in matching else name in matching


@lru_cache(1_000)
def _compile(filter: str | None) -> CompiledFilter | None:
    return compile_archived(None if filter is None else json.loads(filter))


def _judge_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch with ``verdict``: whether the filter matches; false if it is unknown, null if undecidable."""
    for batch in batches:
        read = ("filter", "since", "gone", "matching", "ordinal", "filter_version")
        columns = zip(*(batch.column(name).to_pylist() for name in read), strict=True)
        verdicts: list[bool | None] = []
        for known, (filter, since, gone, matching, ordinal, version) in zip(filter_keys(batch), columns, strict=True):
            if since is None:
                verdicts.append(False)
            elif parts_read(_compile(filter)).isdisjoint(gone or ()):
                verdicts.append(_matches(filter, known))
            else:
                verdicts.append(_recorded_verdict(f"{ordinal}.{version}", matching or ()))
        names = batch.schema.names
        found = [*batch.columns[: names.index("verdict")], pa.array(verdicts, pa.bool_())]
        yield pa.RecordBatch.from_arrays(found, names)


def late_entries(messages: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Return the entries added after acceptance, with the parts of their messages that filters read.

    The entries are computed before the join, so Spark knows their number. If they are few, Spark sends the entries to
    the messages, and moves no bodies.
    """
    columns = ("matched", "replay_of", "matching", "tags", "routing_key", "properties", *BODIES)
    gone = sql.map_keys("hashes").alias("gone")
    known = messages.select(gone, "topic", "message_id", "accepted_at", "subscriptions_version", *columns)
    added = materialise(deliveries.where("added_at is not null").select(*ENTRY, "added_at", "filter_version"))
    added.count()
    return added.join(known, ["topic", "message_id"])


def judge_late_entries(late: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Return late entries with the column ``verdict``: whether the filter version that they name matches.

    The verdict is false if the archive lacks this version, and null if the filter cannot be evaluated.
    """
    filters = subscriptions.where("part = 'filter'")
    versions = filters.select(*LANE, sql.col("version").alias("filter_version"), "filter", "since")
    named = late.join(sql.broadcast(versions), [*LANE, "filter_version"], "left")
    named = named.withColumn("verdict", sql.lit(None).cast("boolean"))
    return materialise(named.mapInArrow(lambda batches: _judge_batches(iter(batches)), named.schema))


def find_wrong(late: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Return violations: late entries that their group did not request, or that their filter does not match.

    A group requests the messages that were accepted since its ``start_from``, by a publish that did not know the group.
    A publish that knows the group evaluates the group's filter, and adds no late entry. A replay is only for the
    subscription that it names.
    """
    made = subscriptions.where("part = 'filter'").groupBy(*LANE).agg(sql.min("since").alias("made_since"))
    first = sql.min_by("start_from", "version").alias("start_from")
    starts = subscriptions.where("part = 'settings'").groupBy(*LANE).agg(first)
    joined = late.join(sql.broadcast(made.join(starts, list(LANE))), list(LANE), "left")
    is_due = sql.col("accepted_at") >= sql.col("start_from")
    is_due &= (sql.col("subscriptions_version") < sql.col("made_since")) & sql.col("replay_of").isNull()
    is_due &= ~sql.array_contains("matched", sql.col("ordinal"))
    unasked = joined.where(~sql.coalesce(is_due, sql.lit(False)))
    found = violation("late_unasked", unasked, sql.col("added_at"), "its group did not ask for it when it was made")
    detail = ("version ", sql.col("filter_version"), " of the filter does not match it")
    other = late.where("not verdict")
    return found.unionByName(violation("late_not_in_filter", other, sql.col("added_at"), *detail))
