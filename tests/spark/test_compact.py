"""Compacting: each record once, by the day it belongs to, whatever arrived, however often and when."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from tagcast.archive.record import RecordKind

from glue_jobs import compact
from glue_jobs.io import raw
from tests.spark.conftest import Bucket
from tests.spark.story import DAY, LIFE_MS, NOON, Record, end, message

NEXT_DAY = "2026-11-21"
Told = Callable[[], dict[str, Any]]


def run(bucket: Bucket, first: str = DAY, end: str = NEXT_DAY) -> int:
    return compact.main(["--archive", bucket.uri, "--from", first, "--to", end])


def curated(spark: SparkSession, bucket: Bucket, kind: str = "messages") -> list[tuple[str, str]]:
    rows = spark.read.parquet(f"file://{bucket.uri}/curated/{kind}").collect()
    return sorted((str(row.dt), row.message_id) for row in rows)


def test_corrupt_lines_are_set_aside_with_their_file_and_number(
    spark: SparkSession, bucket: Bucket, told: Told
) -> None:
    one, typed = message(1), {**message(2), "accepted_at": "noon"}
    nameless = {name: value for name, value in message(3).items() if name != "record_id"}
    lines: list[Record | str] = [one, '{"record_id": "cut', typed, "[1]", message(4), nameless]
    key = bucket.put("messages", DAY, lines)
    assert run(bucket) == 0
    summary = told()["kinds"]["messages"]
    assert (summary["records"], summary["corrupt"]) == (2, 4)
    rows = [json.loads(line) for each in bucket.keys("quarantine/") if each.endswith(".json") for line in
            bucket.text(each).splitlines()]  # fmt: skip
    assert sorted(row["line_number"] for row in rows) == [2, 3, 4, 6]
    assert {row["file"].endswith(key) for row in rows} == {True}
    bucket.write(key, gzip.compress((json.dumps(one) + "\n").encode()))
    assert run(bucket) == 0
    assert bucket.keys("quarantine/messages/dt=") == []


def test_a_truncated_file_fails_the_job_and_is_named(spark: SparkSession, bucket: Bucket, told: Told) -> None:
    content = gzip.compress("\n".join(json.dumps(message(n)) for n in range(500)).encode())
    bucket.put_bytes("messages", DAY, content[: len(content) // 2])
    assert run(bucket) == 1
    summary = told()
    assert (summary["ok"], summary["failed"]) == (False, "messages")
    assert summary["file"].endswith("/0001.gz")
    assert bucket.keys("curated/messages/dt=") == []


def test_duplicates_are_kept_once_and_late_records_join_their_day(
    spark: SparkSession, bucket: Bucket, told: Told
) -> None:
    bucket.put("messages", DAY, [message(1), message(2), message(1)])
    assert run(bucket) == 0
    assert told()["kinds"]["messages"]["duplicates"] == 1
    assert curated(spark, bucket) == [(DAY, message(n)["message_id"]) for n in (1, 2)]
    # The next day brings the first day's third message, and the second message again.
    bucket.put("messages", NEXT_DAY, [message(3), message(2), message(4, at=NOON + LIFE_MS)])
    assert run(bucket, NEXT_DAY, "2026-11-22") == 0
    first = [(DAY, message(n)["message_id"]) for n in (1, 2, 3)]
    assert curated(spark, bucket) == [*first, (NEXT_DAY, message(4, at=NOON + LIFE_MS)["message_id"])]
    before = curated(spark, bucket)
    assert run(bucket, NEXT_DAY, "2026-11-22") == 0
    assert curated(spark, bucket) == before


def test_a_day_that_became_empty_keeps_no_stale_rows(spark: SparkSession, bucket: Bucket, told: Told) -> None:
    key = bucket.put("messages", DAY, [message(1)])
    assert run(bucket) == 0
    bucket.write(key, gzip.compress(b""))
    assert run(bucket) == 0
    assert told()["kinds"]["messages"]["removed_days"] == [DAY]
    assert bucket.keys("curated/messages/dt=") == []


def test_missing_and_unknown_columns_are_tolerated_and_unknown_ones_named(
    spark: SparkSession, bucket: Bucket, told: Told
) -> None:
    old = {name: value for name, value in message(1).items() if name not in ("tags", "schema_version")}
    bucket.put("messages", DAY, [old, {**message(2), "colour": "red", "size": {"deep": 1}}])
    assert run(bucket) == 0
    summary = told()["kinds"]["messages"]
    assert (summary["records"], summary["corrupt"], summary["unknown_columns"]) == (2, 0, ["colour", "size"])


def test_records_of_one_id_that_differ_are_counted_and_one_is_kept_for_good(
    spark: SparkSession, bucket: Bucket, told: Told
) -> None:
    one, other = end(message(1)), end(message(1), outcome="http 204")
    kept = set()
    for order in ((one, other), (other, one)):
        bucket.put("deliveries", DAY, order)
        assert run(bucket) == 0
        assert told()["kinds"]["deliveries"]["conflicts"] == 1
        [row] = spark.read.parquet(f"file://{bucket.uri}/curated/deliveries").collect()
        kept.add(row.outcome)
    assert len(kept) == 1


def test_one_huge_day_is_spread_over_several_files(spark: SparkSession, bucket: Bucket) -> None:
    rows = [(json.dumps(message(n)),) for n in range(2000)]
    lines = spark.createDataFrame(rows, "line string").withColumn("copies", sql.lit(1))
    placed = compact._placed(raw.parsed(lines, RecordKind.MESSAGES), RecordKind.MESSAGES, [DAY], 4)
    sizes = [len(part) for part in placed.rdd.glom().collect()]
    assert len([size for size in sizes if size]) >= 3
    assert max(sizes) < 1200


def test_lines_are_made_distinct_by_hash(spark: SparkSession) -> None:
    lines = spark.createDataFrame([("a",), ("a",)], "line string")
    plan = raw.distinct_lines(lines)._jdf.queryExecution().executedPlan().toString()
    assert "HashAggregate" in plan
    assert "SortAggregate" not in plan
