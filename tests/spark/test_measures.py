"""The quantiles of a report are exact, however they are asked for."""

import random
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType
from tagcast.model import EntryState

from glue_jobs.auditing import audit_late, audit_order, history
from glue_jobs.auditing.audit_entries import ENDS
from glue_jobs.io.arguments import Window
from glue_jobs.io.materialised import IN_DRIVER, materialise
from glue_jobs.io.schemas import DELIVERIES, LANES, MESSAGES, SUBSCRIPTIONS
from glue_jobs.measuring import measures
from tests.spark.story import LIFE_MS, NOON, Record, added, lane, message, removed, subscribed, wait

DELIVERED = ENDS.index(EntryState.DELIVERED.value) + 1
ENTRIES = (
    "topic string, ordinal int, matched int, end int, ends bigint, accepted_at bigint, round_at bigint, "
    "last_attempt_at bigint, attempts int, attempts_waiting int"
)


def test_quantiles_are_exact_by_hour_and_by_anything_coarser(spark: SparkSession) -> None:
    dice = random.Random(20261122)
    rows: list[tuple[Any, ...]] = []
    for ordinal, number in ((1, 1), (2, 2), (3, 7), (4, 250)):
        for _ in range(number):
            round_at = dice.randrange(0, 7_000_000)
            took = round(dice.lognormvariate(4, 1))
            accepted_at = round_at - dice.randrange(0, 90) if dice.random() < 0.9 else round_at + 3
            rows.append(("t", ordinal, 1, DELIVERED, 1, accepted_at, round_at, round_at + took, 1, None))
        rows.append(("t", ordinal, 1, DELIVERED, 1, 5, None, 9_000, 2, 1))
        rows.append(("t", ordinal, 1, None, 0, 5, None, None, None, 1))
    entries = spark.createDataFrame(rows, ENTRIES).cache()
    outcomes = measures.outcomes(entries).cache()
    theirs = {
        measures.quantile_column(name, q): (
            f"percentile(greatest(last_attempt_at - {since}, 0), {q}) "
            f"filter (where end = {DELIVERED} and {since} is not null)"
        )
        for name, since in measures.LATENCIES.items()
        for q in measures.QUANTILES
    }
    for keys, ours in (
        (("ordinal", "hour"), measures.quantiles(outcomes)),
        (("ordinal",), measures.quantiles_by(outcomes, "ordinal")),
        (("hour",), measures.quantiles_by(outcomes, "hour")),
    ):
        entries.withColumn("hour", measures.hour_of("accepted_at")).createOrReplaceTempView("entries")
        columns = ", ".join(f"{text} as {name}" for name, text in theirs.items())
        wanted = spark.sql(f"select {', '.join(keys)}, {columns} from entries group by {', '.join(keys)}")
        found = ours.select(*keys, *theirs)
        assert rounded(found.collect()) == rounded(wanted.collect())


def test_a_failure_whose_delivery_moved_in_its_backlog_counts_once(spark: SparkSession) -> None:
    # A longer max_interval_seconds moves a delivery of INDEPENDENT_RETRY, so it is recorded at both places.
    some = [message(number) for number in (1, 2)]
    waits = [wait(each, attempts=1, position=place, topic="fruit") for each in some for place in (1, 7)]
    waits.append(wait(some[0], attempts=2, position=9, topic="fruit"))
    counted = measures.count_failures(rows_of(spark, waits, DELIVERIES))
    [failed] = measures.failures(counted, "topic", "ordinal").collect()
    assert [each.asDict() for each in failed.top_failures] == [{"outcome": "http 500", "count": 3}]
    assert [row["count"] for row in measures.failures(counted).collect()] == [3]


def rows_of(spark: SparkSession, records: list[Record], schema: StructType) -> DataFrame:
    return spark.createDataFrame([tuple(each.get(name) for name in schema.fieldNames()) for each in records], schema)


def test_what_was_deleted_long_before_the_window_costs_an_audit_nothing(spark: SparkSession) -> None:
    # The paused lane still holds back its messages.
    long_ago = NOON - 60 * LIFE_MS
    told = [lane("fruit", long_ago, "removed"), lane("fruit", long_ago, "paused", ordinal=1)]
    told += [
        lane("fruit", NOON, "blocked", ordinal=2),
        lane("fruit", NOON + 60_000, "removed", "blocked", 2, ordinal=2),
    ]
    window = Window(date(2026, 11, 20), date(2026, 11, 21))
    known = [*subscribed("fruit"), removed("fruit", long_ago), *subscribed("fruit", 2), removed("fruit", NOON, 2)]

    filters = history.filters_in_force(rows_of(spark, known, SUBSCRIPTIONS), window.first_at)
    hours = audit_order.closed_hours(history.closed_intervals(rows_of(spark, told, LANES)), window)

    assert [each.ordinal for each in filters["fruit"]] == [2]
    assert {row.ordinal: row["count"] for row in hours.groupBy("ordinal").count().collect()} == {1: 49, 2: 25}


def test_a_lane_that_closed_before_the_oldest_record_is_closed_until_it_opens(spark: SparkSession) -> None:
    """The records of lanes are deleted after ArchiveKeptDays, and a receiver may be suspended for longer."""
    minute = 60_000
    told = [
        # Resumed, then blocked and active again.
        lane("fruit", NOON, "active", "suspended"),
        lane("fruit", NOON + 5 * minute, "blocked", generation=2),
        lane("fruit", NOON + 7 * minute, "active", "blocked", generation=2),
        # Resumed with a backlog.
        lane("fruit", NOON, "blocked", "suspended", ordinal=1),
        lane("fruit", NOON + 3 * minute, "active", "blocked", ordinal=1),
        # Blocked and active within the first second: it was open.
        lane("fruit", NOON, "blocked", ordinal=2),
        lane("fruit", NOON, "active", "blocked", ordinal=2),
    ]
    closed = history.closed_intervals(rows_of(spark, told, LANES))

    found = measures.blocked_ms(closed, NOON - 2 * minute, NOON + 60 * minute).groupBy("ordinal").sum("blocked_ms")

    assert {row.ordinal: row["sum(blocked_ms)"] // minute for row in found.collect()} == {0: 4, 1: 5}


def test_bodies_are_not_shuffled_for_a_few_late_entries(spark: SparkSession) -> None:
    columns = {each.name: sql.lit(None).cast(each.dataType) for each in MESSAGES.fields}
    columns |= dict.fromkeys(("topic", "message_id"), sql.col("id").cast("string"))
    many = spark.range(10**9).withColumns(columns)
    late = audit_late.late_entries(many, rows_of(spark, [added(message(1))], DELIVERIES))
    assert "SortMergeJoin" not in str(late._jdf.queryExecution().executedPlan().toString())


def test_a_cached_table_is_a_leaf_of_the_plans_that_use_it(spark: SparkSession) -> None:
    """Otherwise Spark analyzes the whole plan again wherever its table is used."""
    before = spark.conf.get(IN_DRIVER, None)
    spark.conf.set(IN_DRIVER, "false")
    some = materialise(spark.range(5).where("id > 1"))
    if before is not None:
        spark.conf.set(IN_DRIVER, before)

    both = some.join(some.withColumnRenamed("id", "other"), sql.col("id") == sql.col("other")).union(
        some.select("id", "id")
    )

    assert some._jdf.queryExecution().analyzed().children().isEmpty()
    assert sorted(row.id for row in both.collect()) == [2, 2, 3, 3, 4, 4]


def rounded(rows: list[Any]) -> dict[str, list[float | None]]:
    """Values by the text of their keys; two ways of interpolating differ in the last bit."""
    told = {}
    for row in rows:
        values = row.asDict()
        keys = {name: values.pop(name) for name in ("ordinal", "hour") if name in values}
        told[str(keys)] = [None if value is None else round(value, 6) for value in values.values()]
    return told
