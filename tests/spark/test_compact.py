"""Compacting: each record once, by the day it belongs to, whatever arrived, however often and when."""

import gzip
import json
import re
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession
from tagcast.archive.record import RecordKind
from tagcast.model import BODY_BYTES_MAX

from glue_jobs import audit, compact
from glue_jobs.compacting import runs
from glue_jobs.io import manifests
from glue_jobs.io.session import BATCH
from glue_jobs.io.storage import Archive
from tests.spark.conftest import Bucket, Told
from tests.spark.story import DAY, LIFE_MS, NOON, Record, end, message

NEXT_DAY = "2026-11-21"


def run(bucket: Bucket, first: str = DAY, end: str = NEXT_DAY, *more: str) -> int:
    return compact.main(["--archive", bucket.uri, "--from", first, "--to", end, *more])


def rebuild(bucket: Bucket) -> int:
    return run(bucket, DAY, NEXT_DAY, "--rebuild", "true")


def curated(spark: SparkSession, bucket: Bucket) -> list[tuple[str, str]]:
    archive, kind = Archive.at(spark, bucket.uri), RecordKind.MESSAGES
    found = [
        (day, row.message_id) for day in archive.curated_days(kind) for row in archive.records(kind, [day]).collect()
    ]
    assert found == sorted(found), "files are sorted by topic and time"
    return found


def test_corrupt_lines_are_set_aside_with_their_file_and_number(
    spark: SparkSession, bucket: Bucket, told: Told
) -> None:
    one, typed = message(1), {**message(2), "accepted_at": "noon"}
    nameless = {name: value for name, value in message(3).items() if name != "record_id"}
    lines: list[Record | str] = [one, '{"record_id": "cut', typed, "[1]", message(4), nameless]
    key = bucket.put("messages", DAY, lines)
    early = bucket.put("messages", DAY, [message(5, at=NOON - LIFE_MS), message(6)])
    plain = bucket.put("messages", DAY, [message(7)])
    assert run(bucket) == 0
    [arrived] = compact.list_arrived(Archive.at(spark, bucket.uri).objects, RecordKind.MESSAGES, [DAY])
    # An erasure looks there for a day. Of a file with a damaged line it is not told which of the days it has.
    assert arrived.compacted == {key: ["2026-11-19", DAY], early: ["2026-11-19", DAY], plain: [DAY]}
    summary = told()["kinds"]["messages"]
    assert (summary["records"], summary["corrupt"]) == (5, 4)
    rows = [json.loads(line) for each in bucket.keys("quarantine/") if each.endswith(".json") for line in
            bucket.text(each).splitlines()]  # fmt: skip
    assert sorted(row["line_number"] for row in rows) == [2, 3, 4, 6]
    assert {row["file"].endswith(key) for row in rows} == {True}
    bucket.write(key, gzip.compress((json.dumps(one) + "\n").encode()))
    assert rebuild(bucket) == 0
    assert bucket.keys("quarantine/messages/dt=") == []
    # A rebuild knows the days of a file that it could read now.
    [rebuilt] = compact.list_arrived(Archive.at(spark, bucket.uri).objects, RecordKind.MESSAGES, [DAY])
    assert rebuilt.compacted == {key: [DAY], early: ["2026-11-19", DAY], plain: [DAY]}
    # An Arrow column has at most 2 GiB and grows by doubling: it has room for a batch of the largest bodies.
    assert int(spark.conf.get(BATCH) or 0) * BODY_BYTES_MAX * 4 / 3 < 1 << 30


def test_a_truncated_file_fails_the_job_and_is_named(spark: SparkSession, bucket: Bucket, told: Told) -> None:
    content = gzip.compress("\n".join(json.dumps(message(n)) for n in range(500)).encode())
    bucket.put_bytes("messages", DAY, content[: len(content) // 2])
    assert run(bucket) == 1
    summary = told()
    assert (summary["ok"], summary["failed"]) == (False, "messages")
    assert summary["file"].endswith("/0001.gz")
    assert bucket.keys("curated/") == []


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


def test_a_file_named_by_the_day_before_is_read_for_the_first_minutes_of_a_day(
    spark: SparkSession, bucket: Bucket
) -> None:
    # Firehose names a file by its oldest record: the last file of a day may have records of the next day, too.
    midnight = NOON - LIFE_MS // 2
    last, first = message(1, at=midnight - 1_000), message(2, at=midnight + 1_000)
    bucket.put("messages", "2026-11-19", [last, first], hour="23")
    bucket.put("messages", DAY, [message(3)])
    known = [("2026-11-19", last["message_id"]), (DAY, first["message_id"]), (DAY, message(3)["message_id"])]
    assert run(bucket) == 0
    assert curated(spark, bucket) == known
    assert rebuild(bucket) == 0
    assert curated(spark, bucket) == known


def test_a_day_that_became_empty_keeps_no_stale_rows(spark: SparkSession, bucket: Bucket, told: Told) -> None:
    key = bucket.put("messages", DAY, [message(1)])
    assert run(bucket) == 0
    bucket.write(key, gzip.compress(b""))
    assert rebuild(bucket) == 0
    assert told()["kinds"]["messages"]["removed_days"] == [DAY]
    assert curated(spark, bucket) == []


def test_a_rebuild_without_raw_files_that_were_compacted_is_refused_and_changes_nothing(
    spark: SparkSession, bucket: Bucket, told: Told
) -> None:
    bucket.put("messages", DAY, [message(1)])
    late = bucket.put("messages", DAY, [message(2)])
    assert run(bucket) == 0
    known, folder = curated(spark, bucket), Path(bucket.uri, "raw")
    for lost, count in ((Path(bucket.uri, late), 1), (folder, 2)):
        aside = lost.rename(Path(bucket.uri, "aside"))
        assert rebuild(bucket) == 1
        detail = told()["detail"]
        assert detail.startswith(f"{count} compacted raw files are missing, the last one is {late}."), detail
        assert curated(spark, bucket) == known
        aside.rename(lost)
    assert rebuild(bucket) == 0


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
        [row] = Archive.at(spark, bucket.uri).records(RecordKind.DELIVERIES).collect()
        kept.add(row.outcome)
    assert len(kept) == 1
    objects = Archive.at(spark, bucket.uri).objects
    assert audit.find_conflicts(objects, [DAY]) == [f"deliveries {DAY} (2)"]
    assert audit.find_conflicts(objects, ["2026-11-19"]) == []


def test_one_huge_day_is_spread_over_several_files_that_follow_each_other(
    spark: SparkSession, bucket: Bucket, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = RecordKind.MESSAGES
    for first in (0, 6000):
        bucket.put("messages", DAY, [message(n, f"t{n % 10}") for n in range(first, first + 6000)])
        assert run(bucket) == 0
        monkeypatch.setattr(compact, "FILE_BYTES", 100_000)
    assert told()["kinds"]["messages"]["records"] == 12_000
    [manifest] = manifests.read(Archive.at(spark, bucket.uri).objects, kind, [DAY])
    read = [f"select record_id from '{bucket.uri}/{key}'" for key in manifest.files]
    parts = [duckdb.connect().execute(each).fetchall() for each in read]
    assert len(parts) == 2
    whole = [each for part in parts for (each,) in part]
    assert whole == sorted(message(n, f"t{n % 10}")["record_id"] for n in range(12_000))


def test_chunks_are_shuffled_once_and_sorted_once_and_no_row_of_theirs_is_looked_at(spark: SparkSession) -> None:
    chunks = spark.createDataFrame([], runs.CHUNKS)
    placed = compact.place_chunks(chunks, ["2026-11-20 ", "2026-11-21 "])
    plan = placed.mapInArrow(lambda batches: batches, placed.schema)._jdf.queryExecution().executedPlan().toString()
    assert (plan.count("Exchange"), plan.count("Sort ["), plan.count("MapInArrow")) == (1, 1, 1)


def test_duckdb_reads_a_day_through_its_manifest_as_the_document_says(spark: SparkSession, bucket: Bucket) -> None:
    document = (Path(__file__).parents[2] / "docs" / "archive.md").read_text()
    # DuckDB would install an extension for the keys of S3, and here is a folder.
    [code] = re.findall(r"```sql\ncreate secret[^;]*;\n(set variable.*?)```", document, re.DOTALL)
    done = [end(message(n), state=state) for n, state in enumerate(["delivered", "delivered", "expired"])]
    for some in (done[:1], done):
        bucket.put("deliveries", DAY, some)
        assert run(bucket) == 0
    assert len([key for key in bucket.keys("curated/deliveries/data") if key.endswith(".parquet")]) == 2
    found = duckdb.connect().execute(code.replace("s3://BUCKET", bucket.uri)).fetchall()
    assert sorted(found) == [("delivered", 2), ("expired", 1)]


@pytest.mark.parametrize("name", ["my archive", "jürgen", "50%20", "shop[1]{a,b}*"])
def test_a_folder_may_have_any_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    bucket = Bucket(str(tmp_path / name))
    bucket.put("messages", DAY, [message(1), "damaged"])
    assert run(bucket) == 0
    assert curated(spark, bucket) == [(DAY, message(1)["message_id"])]
    [files] = bucket.keys("curated/messages/manifest/")
    assert Path(bucket.text(files).strip().removeprefix("file://")).is_file()
    assert [each.name for each in tmp_path.iterdir()] == [name]
