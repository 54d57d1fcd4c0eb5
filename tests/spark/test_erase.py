"""What is erased is nowhere in the archive any more, and what was certified before verifies as it did."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tagcast.archive.record import RecordKind

from glue_jobs import audit, compact, erase
from glue_jobs.auditing import merkle
from glue_jobs.io import arguments
from glue_jobs.io.storage import Archive
from tests.spark.conftest import S3Bucket
from tests.spark.story import DAY, LIFE_MS, NOON, Record, end, message, settings, subscribed

WINDOW = ("--from", DAY, "--to", "2026-11-22")
NEXT_DAY = "2026-11-21"
SECRET, OTHER = "s3cr3t-ada", "kept-bob"
APPLE = '{"kind": "tags", "tags": ["apple"]}'
Told = Callable[[], dict[str, Any]]


def written(number: int, who: str, **more: Any) -> Record:
    at = more.pop("at", NOON)
    values = {"properties": {"customer": who}, "ordering_key": who, "tags": ["apple"], **more}
    return message(number, at=at, body=f"dear {who}", body_bytes=15, **values)


def story() -> list[Record]:
    one = written(1, SECRET)
    replayed = written(3, SECRET, at=NOON + LIFE_MS, replay_of=one["message_id"])
    missed, wrong = written(4, SECRET, matched=()), written(5, SECRET, tags=["pear"])
    return [one, written(2, OTHER), replayed, missed, wrong]


def contents(bucket: S3Bucket) -> dict[str, str]:
    """Every version of every object, as text: what is compressed is read."""
    found = {}
    for page in bucket.client.get_paginator("list_object_versions").paginate(Bucket=bucket.name):
        for each in page.get("Versions", ()):
            got = bucket.client.get_object(Bucket=bucket.name, Key=each["Key"], VersionId=each["VersionId"])
            content = got["Body"].read()
            if each["Key"].endswith(".gz"):
                content = gzip.decompress(content)
            elif each["Key"].endswith(".parquet"):
                content = str(pq.read_table(io.BytesIO(content)).to_pylist()).encode()
            found[f"{each['Key']} {each['VersionId']}"] = content.decode()
    return found


def filled(s3_bucket: S3Bucket, name: str) -> S3Bucket:
    client = s3_bucket.client
    client.create_bucket(Bucket=name)
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    bucket = S3Bucket(f"s3://{name}", client=client)
    told = story()
    damaged = json.dumps(told[0])[:-20]
    bucket.put("messages", DAY, [told[0], told[1], told[3], damaged])
    bucket.put("messages", NEXT_DAY, [told[2], told[4], told[0]])
    bucket.put("deliveries", DAY, [end(each, round_at=each["accepted_at"]) for each in told if each["matched"]])
    bucket.put("subscriptions", DAY, [{**settings(), "changed_at": NOON}, *subscribed("fruit", 0, APPLE)[1:]])
    bucket.write("athena/result.csv", SECRET.encode())
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0
    # What was replaced is a former version.
    bucket.write("curated/messages/data/1-a/dt=2026-11-20/replaced.txt", SECRET.encode())
    client.delete_object(Bucket=name, Key="curated/messages/data/1-a/dt=2026-11-20/replaced.txt")
    samples = json.dumps({"samples": [{"message_id": told[0]["message_id"], "customer": SECRET}]})
    bucket.write("reports/backtest/one/backtest.json", samples.encode())
    bucket.write("reports/backtest/one/hours/part.txt", b"of the same report")
    bucket.write("reports/backtest/two/backtest.json", b"of others")
    return bucket


def certificate(bucket: S3Bucket, told: Told) -> dict[str, Any]:
    assert audit.main(["--archive", bucket.uri, *WINDOW]) == 1
    summary = told()
    text = bucket.client.get_object(Bucket=bucket.name, Key=summary["json"].removeprefix(f"{bucket.uri}/"))[
        "Body"
    ].read()
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "now_ms", lambda: NOON + 20 * LIFE_MS)


@pytest.mark.timeout(400)
def test_nothing_of_it_is_left_and_the_audit_of_its_day_finds_what_it_found(
    spark: SparkSession, s3_bucket: S3Bucket, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = filled(s3_bucket, "erased")
    archive, window = Archive.at(spark, bucket.uri), arguments.Window(date(2026, 11, 20), date(2026, 11, 22))
    before = audit.roots(archive, window)
    chosen = ["--topic", "fruit", "--property", f"customer={SECRET}", "--before", "2026-11-25"]
    given = ["--archive", bucket.uri, *chosen]
    asked = [*given, "--preview", "false", "--by", "privacy@example.org"]

    # The first try ends when the raw files are done.
    with monkeypatch.context() as patched:
        patched.setattr(erase, "rewrite_days", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            erase.main(asked)
    assert erase.main(asked) == 0
    assert told()["messages"] == 4

    left = contents(bucket)
    assert [key for key, text in left.items() if SECRET in text] == []
    assert [key for key, text in left.items() if OTHER in text and key.startswith("raw/")]
    after = certificate(bucket, told)
    assert audit.roots(archive, window) == before
    assert {kind: n for kind, n in after["by_kind"].items() if n} == {"missed": 1, "not_in_filter": 1}
    [named] = after["erasures"]
    assert (named["messages"], named["asked_by"]) == (4, "privacy@example.org")
    assert {key.split(" ")[0] for key in left if key.startswith("reports/backtest")} == {
        "reports/backtest/two/backtest.json"
    }
    for part in after["partitions"]:
        kind = RecordKind(part["kind"])
        rows = archive.records(kind, [part["dt"]]).collect()
        leaves = [merkle.leaf_of(row.asDict(recursive=True)) for row in rows]
        assert merkle.root_of(list(merkle.bucket_digests(leaves).values())) == part["root"]


@pytest.mark.nightly
def test_a_preview_changes_nothing_and_a_repetition_nothing_more(
    spark: SparkSession, s3_bucket: S3Bucket, told: Told
) -> None:
    bucket = filled(s3_bucket, "repeated")
    before = certificate(bucket, told)
    chosen = ["--topic", "fruit", "--property", f"customer={SECRET}", "--before", "2026-11-25"]
    given = ["--archive", bucket.uri, *chosen]
    there = contents(bucket)
    assert erase.main(given) == 0
    preview = told()
    assert (preview["messages"], preview["raw_files"], preview["curated_files"]) == (4, 2, 2)
    assert {key for key in contents(bucket).keys() ^ there.keys() if not key.startswith("keys/")} == set()
    asked = [*given, "--preview", "false", "--by", "privacy@example.org"]
    assert erase.main(asked) == 0
    left = contents(bucket)
    _repeated(bucket, asked, left)
    # What was erased stays erased, also where days are made of their raw files again.
    assert compact.main(["--archive", bucket.uri, *WINDOW, "--rebuild", "true"]) == 0
    assert certificate(bucket, told)["merkle_root"] == before["merkle_root"]
    assert [key for key, text in contents(bucket).items() if SECRET in text] == []


def _interrupted(*_: object) -> int:
    raise KeyboardInterrupt


def _repeated(bucket: S3Bucket, asked: list[str], left: dict[str, str]) -> None:
    """A repetition changes no byte of what is read; only generations are named anew."""
    assert erase.main(asked) == 0
    again = contents(bucket)
    others = ("curated/", "reports/audit/")
    plain = [
        {key.partition(" ")[0]: text for key, text in each.items() if not key.startswith(others)}
        for each in (left, again)
    ]
    assert plain[0] == plain[1]


def test_what_may_still_be_owed_or_in_the_state_table_is_refused(
    spark: SparkSession, s3_bucket: S3Bucket, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_bucket.client.create_bucket(Bucket="early")
    bucket = S3Bucket("s3://early", client=s3_bucket.client)
    one = written(1, SECRET)
    bucket.put("messages", DAY, [one])
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0
    kept = contents(bucket)
    monkeypatch.setattr(arguments, "now_ms", lambda: one["expires_at"] + erase.RECEIPTS_GONE_MS - 1)
    given = ["--archive", bucket.uri, "--message", one["message_id"], "--preview", "false", "--by", "me"]
    assert erase.main(given) == 1
    assert told()["message_ids"] == [one["message_id"]]
    assert contents(bucket) == kept
    monkeypatch.setattr(arguments, "now_ms", lambda: one["expires_at"] + erase.RECEIPTS_GONE_MS)
    assert erase.main(given) == 0
    assert [key for key, text in contents(bucket).items() if SECRET in text and key.startswith("raw/")] == []
