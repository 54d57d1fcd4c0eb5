"""The counts and latencies of a delivery report, by topic, subscription and hour of acceptance."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql
from tagcast.model import EntryState

from glue_jobs.auditing.audit_entries import ENDS, ENTRY, HOUR_MS, end_is
from glue_jobs.auditing.history import LANE

QUANTILES = (0.5, 0.95, 0.99)
LATENCIES = {"attempt_ms": "round_at", "end_to_end_ms": "accepted_at"}
"""Both latencies, each with the column of the instant at which it begins. Both end with the last attempt."""
FAILURES_KEPT = 5
PAIR_HOUR = (*LANE, "hour")


def hour_of(instant: str) -> Column:
    """Return a Spark column: the start of the hour of the column named *instant*, both in milliseconds since 1970."""
    return (sql.floor(sql.col(instant) / HOUR_MS) * HOUR_MS).cast("bigint")


def subscription_names(subscriptions: DataFrame) -> DataFrame:
    """Return the name of each ordinal: (topic, ordinal, subscription)."""
    named = subscriptions.where("subscription is not null and ordinal is not null")
    return named.groupBy(*LANE).agg(sql.max_by("subscription", "changed_at").alias("subscription"))


def count_accepted(messages: DataFrame) -> DataFrame:
    """Return the numbers of accepted and of unmatched messages of each topic by hour."""
    nobody = (sql.size(sql.coalesce("matched", sql.array().cast("array<int>"))) == 0).cast("int")
    rows = messages.select("topic", hour_of("accepted_at").alias("hour"), nobody.alias("nobody"))
    return rows.groupBy("topic", "hour").agg(sql.count("*").alias("accepted"), sql.sum("nobody").alias("unmatched"))


def outcomes(entries: DataFrame) -> DataFrame:
    """Return counts and latencies by (topic, ordinal, hour): matched, each end, pending, retries, and two arrays.

    The sorted arrays *attempt_ms* and *end_to_end_ms* have the latencies of successful deliveries. *attempt_ms* has
    only deliveries that succeeded in the first round: the time from the round's start to the end of the attempt.
    """
    matched = entries.where("matched = 1").withColumn("hour", hour_of("accepted_at"))
    made = sql.greatest(sql.coalesce("attempts", sql.lit(0)), sql.coalesce("attempts_waiting", sql.lit(0)))
    ends = [sql.sum((sql.col("end") == n + 1).cast("bigint")).alias(state) for n, state in enumerate(ENDS)]
    return matched.groupBy(*PAIR_HOUR).agg(
        sql.count("*").alias("matched"),
        *(sql.coalesce(each, sql.lit(0)).alias(state) for each, state in zip(ends, ENDS, strict=True)),
        sql.sum((sql.col("ends") == 0).cast("bigint")).alias("pending"),
        sql.sum(sql.greatest(made - 1, sql.lit(0)).cast("bigint")).alias("retries"),
        *(_in_order(since).alias(name) for name, since in LATENCIES.items()),
    )


def _in_order(since: str) -> Column:
    """Return a column: the sorted durations (ms) of deliveries from the instant in the column *since*."""
    took = sql.greatest(sql.col("last_attempt_at") - sql.col(since), sql.lit(0))
    known = end_is(EntryState.DELIVERED) & sql.col("last_attempt_at").isNotNull() & sql.col(since).isNotNull()
    return sql.sort_array(sql.collect_list(sql.when(known, took)))


def quantiles(outcomes: DataFrame) -> DataFrame:
    """Return *outcomes* with exact quantiles (attempt_ms_p50 to end_to_end_ms_p99) instead of arrays of latencies."""
    rest = [name for name in outcomes.columns if name not in LATENCIES]
    found = [_quantile(name, q).alias(quantile_column(name, q)) for name in LATENCIES for q in QUANTILES]
    return outcomes.select(*rest, *found)


def _quantile(ordered: str, q: float) -> Column:
    """Return one quantile of a sorted array like Spark's ``percentile``: interpolated between neighbours."""
    place = (sql.size(ordered) - 1) * sql.lit(q)
    below, above = (sql.get(ordered, near(place).cast("int")) for near in (sql.floor, sql.ceil))
    return below + (above - below) * (place - sql.floor(place))


def quantile_column(latency: str, q: float) -> str:
    """Return the column name of one quantile of a latency.

    >>> quantile_column("attempt_ms", 0.5)
    'attempt_ms_p50'
    """
    return f"{latency}_p{round(q * 100)}"


def quantiles_by(outcomes: DataFrame, *keys: str) -> DataFrame:
    """Return the exact quantiles of the two :data:`LATENCIES` by *keys*, with the names of :func:`quantiles`.

    Spark first counts how often each duration occurs. So exact quantiles of many deliveries need no array of all
    durations.
    """
    each = [outcomes.select(*keys, sql.lit(name).alias("latency"), sql.explode(name).alias("ms")) for name in LATENCIES]
    counted = each[0].unionByName(each[1]).groupBy(*keys, "latency", "ms").agg(sql.count("*").alias("number"))
    points = sql.array(*(sql.lit(q) for q in QUANTILES))
    of = {name: sql.when(sql.col("latency") == name, sql.col("ms")) for name in LATENCIES}
    rows = counted.groupBy(*keys).agg(
        *(sql.call_function("percentile", ms, points, sql.col("number")).alias(name) for name, ms in of.items())
    )
    found = [
        sql.get(name, sql.lit(n)).alias(quantile_column(name, q)) for name in LATENCIES for n, q in enumerate(QUANTILES)
    ]
    return rows.select(*keys, *found)


def count_failures(deliveries: DataFrame) -> DataFrame:
    """Count outcomes of failed attempts and of discarded deliveries: (topic, ordinal, hour, outcome, count).

    A delivery that moved in its backlog has another record of the same attempt, which is not counted again.
    """
    waited = (sql.col("state") == EntryState.BLOCKED.value) & (sql.col("attempts") > 0)
    ended = sql.col("state").isin(EntryState.DISCARDED.value)
    failed = deliveries.where((waited | ended) & sql.col("outcome").isNotNull() & sql.col("removed_by").isNull())
    named = failed.select(*ENTRY, "state", "attempts", "outcome", hour_of("accepted_at").alias("hour")).distinct()
    return named.groupBy(*PAIR_HOUR, "outcome").agg(sql.count("*").alias("count"))


def failures(counted: DataFrame, *keys: str) -> DataFrame:
    """Return the most frequent outcomes of the *counted* failures (:func:`count_failures`).

    With *keys*, each combination of their values has one row with an array ``top_failures``. Without *keys*, each
    outcome has one row.
    """
    counted = counted.groupBy(*keys, "outcome").agg(sql.sum("count").alias("count"))
    order = Window.partitionBy(*keys).orderBy(sql.desc("count"), "outcome") if keys else None
    if order is None:
        return counted.orderBy(sql.desc("count"), "outcome").limit(FAILURES_KEPT)
    ranked = counted.withColumn("rank", sql.row_number().over(order)).where(sql.col("rank") <= FAILURES_KEPT)
    each = sql.struct("rank", "outcome", "count")
    listed = ranked.groupBy(*keys).agg(sql.sort_array(sql.collect_list(each)).alias("ranked"))
    kept = sql.transform("ranked", lambda one: sql.struct(one["outcome"].alias("outcome"), one["count"].alias("count")))
    return listed.select(*keys, kept.alias("top_failures"))


def blocked_ms(closed: DataFrame, first_at: int, end_at: int) -> DataFrame:
    """Return how long lanes were closed, by hour from *first_at* to *end_at*: (topic, ordinal, hour, blocked_ms)."""
    begins, ends = sql.greatest("begins_at", sql.lit(first_at)), sql.least("ends_at", sql.lit(end_at))
    inside = closed.select(*LANE, begins.alias("begins"), ends.alias("ends")).where("begins < ends")
    hours = sql.sequence(sql.floor(sql.col("begins") / HOUR_MS), sql.floor((sql.col("ends") - 1) / HOUR_MS))
    pieces = inside.withColumn("number", sql.explode(hours))
    pieces = pieces.withColumn("hour", (sql.col("number") * HOUR_MS).cast("bigint"))
    part = sql.least(sql.col("ends"), sql.col("hour") + HOUR_MS) - sql.greatest("begins", "hour")
    return pieces.groupBy(*PAIR_HOUR).agg(sql.sum(part).alias("blocked_ms"))
