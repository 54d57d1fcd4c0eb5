"""What a delivery report measures, by topic, subscription and hour of acceptance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sql
from tagcast.model import EntryState

from glue_jobs.auditing.audit_entries import ENDS, end_is
from glue_jobs.auditing.audit_order import HOUR_MS
from glue_jobs.auditing.history import LANE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

QUANTILES = (0.5, 0.95, 0.99)
LATENCIES = ("attempt_ms", "end_to_end_ms")
FAILURES_KEPT = 5
PAIR_HOUR = (*LANE, "hour")


def hour_of(instant: str) -> Column:
    """Return the expression of the first instant of an instant's hour."""
    return (sql.floor(sql.col(instant) / HOUR_MS) * HOUR_MS).cast("bigint")


def subscription_names(subscriptions: DataFrame) -> DataFrame:
    """Return the name of each ordinal: (topic, ordinal, subscription)."""
    named = subscriptions.where("subscription is not null and ordinal is not null")
    return named.groupBy(*LANE).agg(sql.max_by("subscription", "changed_at").alias("subscription"))


def accepted(messages: DataFrame) -> DataFrame:
    """Return how many messages each topic accepted in each hour, and how many of them matched nobody."""
    nobody = (sql.size(sql.coalesce("matched", sql.array().cast("array<int>"))) == 0).cast("int")
    rows = messages.select("topic", hour_of("accepted_at").alias("hour"), nobody.alias("nobody"))
    return rows.groupBy("topic", "hour").agg(sql.count("*").alias("accepted"), sql.sum("nobody").alias("unmatched"))


def outcomes(entries: DataFrame) -> DataFrame:
    """Return the counts of each (topic, ordinal, hour): matched, one column for each end, owed, retries."""
    owed = entries.where("owed = 1").withColumn("hour", hour_of("accepted_at"))
    made = sql.greatest(sql.coalesce("attempts", sql.lit(0)), sql.coalesce("attempts_waiting", sql.lit(0)))
    ends = [sql.sum((sql.col("end") == n + 1).cast("bigint")).alias(state) for n, state in enumerate(ENDS)]
    return owed.groupBy(*PAIR_HOUR).agg(
        sql.count("*").alias("matched"),
        *(sql.coalesce(each, sql.lit(0)).alias(state) for each, state in zip(ends, ENDS, strict=True)),
        sql.sum((sql.col("ends") == 0).cast("bigint")).alias("owed"),
        sql.sum(sql.greatest(made - 1, sql.lit(0)).cast("bigint")).alias("retries"),
    )


def latencies(entries: DataFrame) -> DataFrame:
    """Return how often each latency occurred: (topic, ordinal, hour, kind of latency, ms, number).

    *attempt_ms* is known of deliveries at the first attempt: from the start of their round to the attempt's end.
    Counting equal milliseconds first makes exact percentiles of many deliveries cheap.
    """
    delivered = entries.where(end_is(EntryState.DELIVERED) & (sql.col("owed") == 1)).select(
        *LANE,
        hour_of("accepted_at").alias("hour"),
        (sql.col("last_attempt_at") - sql.col("round_at")).alias("attempt_ms"),
        (sql.col("last_attempt_at") - sql.col("accepted_at")).alias("end_to_end_ms"),
    )
    parts = sql.array(
        *(sql.struct(sql.lit(n).alias("latency"), sql.col(name).alias("ms")) for n, name in enumerate(LATENCIES))
    )
    long = delivered.select(*PAIR_HOUR, sql.explode(parts).alias("each")).select(*PAIR_HOUR, "each.*")
    counted = long.where("ms is not null").withColumn("ms", sql.greatest("ms", sql.lit(0)))
    return counted.groupBy(*PAIR_HOUR, "latency", "ms").agg(sql.count("*").alias("number"))


def percentiles(latencies: DataFrame, *keys: str) -> DataFrame:
    """Return the exact percentiles of both latencies by *keys*: attempt_ms_p50 … end_to_end_ms_p99."""
    points = sql.array(*(sql.lit(q) for q in QUANTILES))
    columns = []
    for n, name in enumerate(LATENCIES):
        this = sql.when(sql.col("latency") == n, sql.col("ms"))
        found = sql.call_function("percentile", this, points, sql.col("number")).alias(name)
        columns.append(found)
    rows = latencies.groupBy(*keys).agg(*columns)
    wide = [
        sql.get(name, sql.lit(place)).alias(f"{name}_p{round(q * 100)}")
        for name in LATENCIES
        for place, q in enumerate(QUANTILES)
    ]
    return rows.select(*keys, *wide)


def failures(deliveries: DataFrame, *keys: str) -> DataFrame:
    """Return the most frequent outcomes of attempts that failed, by *keys*: top_failures.

    Counted is what was recorded of each failed attempt, and how entries ended that were not delivered.
    """
    waited = (sql.col("state") == EntryState.BLOCKED.value) & (sql.col("attempts") > 0)
    ended = sql.col("state").isin(EntryState.DISCARDED.value)
    failed = deliveries.where((waited | ended) & sql.col("outcome").isNotNull() & sql.col("removed_by").isNull())
    named = failed.withColumn("hour", hour_of("accepted_at"))
    counted = named.groupBy(*keys, "outcome").agg(sql.count("*").alias("count"))
    order = Window.partitionBy(*keys).orderBy(sql.desc("count"), "outcome") if keys else None
    if order is None:
        return counted.orderBy(sql.desc("count"), "outcome").limit(FAILURES_KEPT)
    ranked = counted.withColumn("rank", sql.row_number().over(order)).where(sql.col("rank") <= FAILURES_KEPT)
    each = sql.struct("rank", "outcome", "count")
    listed = ranked.groupBy(*keys).agg(sql.sort_array(sql.collect_list(each)).alias("ranked"))
    kept = sql.transform("ranked", lambda one: sql.struct(one["outcome"].alias("outcome"), one["count"].alias("count")))
    return listed.select(*keys, kept.alias("top_failures"))


def blocked(closed: DataFrame, first_at: int, end_at: int) -> DataFrame:
    """Return how long each lane was not active in each hour of the window: (topic, ordinal, hour, blocked_ms)."""
    begins, ends = sql.greatest("begins_at", sql.lit(first_at)), sql.least("ends_at", sql.lit(end_at))
    inside = closed.select(*LANE, begins.alias("begins"), ends.alias("ends")).where("begins < ends")
    hours = sql.sequence(sql.floor(sql.col("begins") / HOUR_MS), sql.floor((sql.col("ends") - 1) / HOUR_MS))
    pieces = inside.withColumn("number", sql.explode(hours))
    pieces = pieces.withColumn("hour", (sql.col("number") * HOUR_MS).cast("bigint"))
    part = sql.least(sql.col("ends"), sql.col("hour") + HOUR_MS) - sql.greatest("begins", "hour")
    return pieces.groupBy(*PAIR_HOUR).agg(sql.sum(part).alias("blocked_ms"))
