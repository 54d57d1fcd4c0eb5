"""Late entries, judged again: each was asked for by its group, and matches the version of the filter that it names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql
from tagcast.errors import FilterEvaluationError
from tagcast.filters.kinds import CompiledFilter, compile_filter

from glue_jobs.auditing.audit_entries import ENTRY, violation
from glue_jobs.auditing.history import LANE
from glue_jobs.io.messages_read import BODIES, Known, known_of, seen_of
from glue_jobs.io.settled import settled

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

REMEMBERED_MAX = 200_000


@lru_cache(REMEMBERED_MAX)
def _matches(filter: str | None, known: Known) -> bool:
    """Say whether a filter matches; one that reads a body that was not archived is not judged."""
    seen, compiled = seen_of(known), _compiled(filter)
    if compiled.reads_body and seen.body is None:
        return True
    with suppress(FilterEvaluationError):
        return compiled.evaluate(seen) is True
    return False


@lru_cache(1_000)
def _compiled(filter: str | None) -> CompiledFilter:
    return compile_filter(None if filter is None else json.loads(filter))


def _not_matched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield of each batch those whose filter does not match them, or is none that ever was."""
    import pyarrow as pa

    for batch in batches:
        names = batch.schema.names
        read = ("filter", "since", "matching", "ordinal", "filter_version")
        columns = zip(*(batch.column(names.index(name)).to_pylist() for name in read), strict=True)
        wrong = []
        for known, (filter, since, matching, ordinal, version) in zip(known_of(batch), columns, strict=True):
            did = (
                _matches(filter, known)
                if matching is None
                else bool({f"{ordinal}.{version}", f"?{ordinal}.{version}"} & {*matching})
            )
            wrong.append(since is None or not did)
        yield batch.filter(pa.array(wrong, pa.bool_()))


def late_entries(messages: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Return the entries that were added after their messages were accepted, with what filters read of these."""
    columns = ("matched", "replay_of", "matching", "tags", "routing_key", "properties", *BODIES)
    known = messages.select("topic", "message_id", "accepted_at", "subscriptions_version", *columns)
    added = deliveries.where("added_at is not null").select(*ENTRY, "added_at", "filter_version")
    return settled(added.join(known, ["topic", "message_id"]))


def wrong(late: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Return the late entries that nobody asked for, and those that their filter does not match.

    A group asks when it is made: for what is no older than that, and was accepted by a publish that did not know the
    group, since any other decided about it itself. A replay is for the subscription that it names.
    """
    filters = subscriptions.where("part = 'filter'")
    made = filters.groupBy(*LANE).agg(sql.min("since").alias("made_since"))
    asked = subscriptions.where("part = 'settings' and version = 1").select(*LANE, "consume_from")
    told = late.join(sql.broadcast(made.join(asked, list(LANE))), list(LANE), "left")
    is_due = sql.col("accepted_at") >= sql.col("consume_from")
    is_due &= (sql.col("subscriptions_version") < sql.col("made_since")) & sql.col("replay_of").isNull()
    is_due &= ~sql.array_contains("matched", sql.col("ordinal"))
    unasked = told.where(~sql.coalesce(is_due, sql.lit(False)))
    found = violation("late_unasked", unasked, sql.col("added_at"), "its group did not ask for it when it was made")
    versions = filters.select(*LANE, sql.col("version").alias("filter_version"), "filter", "since")
    named = late.join(sql.broadcast(versions), [*LANE, "filter_version"], "left")
    other = named.mapInArrow(lambda batches: _not_matched(iter(batches)), named.schema)
    detail = ("version ", sql.col("filter_version"), " of the filter does not match it")
    return found.unionByName(violation("late_not_in_filter", other, sql.col("added_at"), *detail))
