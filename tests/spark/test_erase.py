"""What is erased is nowhere in the archive any more, and what was certified before verifies as it did."""

import base64
import gzip
import io
import json
import tracemalloc
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tagcast.archive.record import RecordKind

from glue_jobs import audit, compact, erase
from glue_jobs.erasing.contents import Part, forget_parts, key_of
from glue_jobs.erasing.places import RequestedErasure, decode_failed, name_of_subject, rewrite_object, text_of
from glue_jobs.io import arguments, manifests
from glue_jobs.io.manifests import Manifest
from glue_jobs.io.objects import DamagedObjectError, FolderObjects, Objects, Stored
from glue_jobs.io.session import PARTITIONS
from glue_jobs.io.storage import Archive
from tests.spark.conftest import Bucket, S3Bucket, Told
from tests.spark.story import APPLE, DAY, LIFE_MS, NOON, Record, message, message_id, settings, subscribed

LATE_DAY = "2026-11-27"
WINDOW = ("--from", DAY, "--to", "2026-11-28")
SECRET, OTHER = "s3cr3t-ada", "kept-bob"


def written(number: int, who: str, **more: Any) -> Record:
    at = more.pop("at", NOON)
    values = {"properties": {"customer": who}, "ordering_key": who, "tags": ["apple"], **more}
    return message(number, at=at, body=f"dear {who}", body_bytes=15, **values)


def story() -> list[Record]:
    one = written(1, SECRET)
    return [one, written(2, OTHER), written(3, SECRET, at=NOON + LIFE_MS, replay_of=one["message_id"])]


def contents(bucket: S3Bucket) -> dict[str, str]:
    """Every version of every object, as text: what is compressed is read."""
    found = {}
    for page in bucket.client.get_paginator("list_object_versions").paginate(Bucket=bucket.name):
        for each in page.get("Versions", ()):
            got = bucket.client.get_object(Bucket=bucket.name, Key=each["Key"], VersionId=each["VersionId"])
            found[f"{each['Key']} {each['VersionId']}"] = text_in(each["Key"], got["Body"].read())
    return found


def texts(bucket: Bucket) -> dict[str, str]:
    return {key: text_in(key, (Path(bucket.uri) / key).read_bytes()) for key in bucket.keys("")}


def text_in(key: str, content: bytes) -> str:
    if key.endswith(".parquet"):
        return str(pq.read_table(io.BytesIO(content)).to_pylist())
    text = text_of(content)
    return (
        "\n".join(decode_failed(line)[1] or line for line in text.splitlines()) if key.startswith("failed/") else text
    )


def filled(s3_bucket: S3Bucket, name: str) -> S3Bucket:
    client = s3_bucket.client
    client.create_bucket(Bucket=name)
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    bucket = S3Bucket(f"s3://{name}", client=client)
    told = story()
    cut, no_map = json.dumps(told[0])[:-20], json.dumps({**told[0], "properties": [SECRET]})
    bucket.put("messages", DAY, [told[0], told[1], cut, no_map, cut.replace('"tags"', '\r"tags"')])
    # A replay, and a copy that came late: it is not the message's day, and not the next ones.
    bucket.put("messages", LATE_DAY, [told[2], told[0]])
    bucket.put("subscriptions", DAY, [settings(), *subscribed("fruit", 0, APPLE)[1:]])
    # What no other place has: Firehose could not deliver it.
    lost = gzip.compress(json.dumps(written(4, SECRET)).encode() + b"\n")
    failed = {"errorCode": "S3.AccessDenied", "rawData": base64.b64encode(lost).decode()}
    bucket.write(f"failed/messages/format-conversion-failed/dt={DAY}/1", f"{json.dumps(failed)}\n".encode())
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


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "now_ms", lambda: NOON + 20 * LIFE_MS)


def test_a_line_that_firehose_could_not_deliver_goes_too_where_it_cannot_be_read() -> None:
    mine = message_id(1)
    eraser = RequestedErasure("key", (Part.BODY,), {f"fruit.{mine}": []}, None)
    lines = [f'{{"rawData": "no base64", "why": "{name}"}}' for name in (mine, message_id(2))]

    gone, kept, nothing = eraser.erase_text(f"failed/messages/x/dt={DAY}/1", "\n".join([*lines, ""])).split("\n")

    assert (mine in gone, list(json.loads(gone))) == (False, ["erased_line"])
    assert (kept, nothing) == (lines[1], "")


def test_a_compressed_record_that_firehose_could_not_deliver_loses_its_parts_and_stays_compressed() -> None:
    # Firehose gets its records compressed, and returns them as they came.
    one, other = ({**written(number, SECRET), "salt": None} for number in (1, 2))
    eraser = RequestedErasure("key", tuple(Part), {one["record_id"]: []}, None)
    record = gzip.compress(b"".join(f"{json.dumps(each)}\n".encode() for each in (one, other)))
    line = json.dumps({"errorCode": "x", "rawData": base64.b64encode(record).decode()})

    told = json.loads(eraser.erase_text(f"failed/messages/x/dt={DAY}/1", line))

    first, second = map(json.loads, gzip.decompress(base64.b64decode(told["rawData"])).splitlines())
    assert (SECRET in str(first), sorted(first["hashes"])) == (False, ["body", "keys", "properties"])
    assert second == other


def test_of_two_jobs_that_make_the_key_of_an_archive_at_once_both_have_the_same(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    others: list[str] = []

    class Raced(FolderObjects):
        def write(self, key: str, content: bytes, seen: Stored | None) -> None:
            others.append(key_of(objects))
            super().write(key, content, seen)

    assert [key_of(Raced(tmp_path)), key_of(objects)] == others * 2


@pytest.mark.parametrize("packed", [lambda content: content, lambda content: gzip.compress(content, mtime=0)])
def test_an_object_is_rewritten_as_it_was_compressed_or_not(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    objects = FolderObjects(tmp_path)
    objects.replace("raw/messages/1", packed(b"a\nb\n"))

    assert rewrite_object(objects, "raw/messages/1", lambda key, text: text.replace("b", "c"))
    assert (tmp_path / "raw/messages/1").read_bytes() == packed(b"a\nc\n")
    assert not rewrite_object(objects, "raw/messages/1", lambda key, text: text)


def test_a_file_with_a_byte_that_is_no_text_is_erased_too(tmp_path: Path) -> None:
    objects, one = FolderObjects(tmp_path), written(1, SECRET)
    key = f"raw/messages/dt={DAY}/hour=12/1.gz"
    objects.replace(key, b'{"record_id": "\xff\n' + json.dumps(one).encode())
    eraser = RequestedErasure("key", tuple(Part), {one["record_id"]: []}, None)

    assert rewrite_object(objects, key, eraser.erase_text)
    assert SECRET.encode() not in (tmp_path / key).read_bytes()


TRUNCATED = gzip.compress(b"{}", mtime=0)[:-1]


@pytest.mark.parametrize("content", [b"no JSON\n", b'{"line": "x"}\n', b"[1]\n", b"\xff\n", TRUNCATED])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    """Its lines may tell of a raw file with contents, so an erasure does not pass over it."""
    objects, key = FolderObjects(tmp_path), "quarantine/messages/x.json"
    objects.replace(key, content)

    with pytest.raises(DamagedObjectError, match=f"^{key} is damaged .*: restore or delete it, and run the job again$"):
        erase._find_damaged(objects, frozenset())


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    objects, key = FolderObjects(tmp_path), f"raw/messages/dt={DAY}/hour=12/1.gz"
    objects.replace(key, gzip.compress(json.dumps(written(1, SECRET)).encode())[:-9])

    with pytest.raises(DamagedObjectError, match=f"^{key} is damaged"):
        rewrite_object(objects, key, lambda key, text: text)


@pytest.mark.usefixtures("spark")
def test_nobody_is_called_erased_if_a_file_cannot_be_read(bucket: Bucket) -> None:
    bucket.put("messages", DAY, story()[:2])
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0
    damaged = Path(bucket.uri) / "quarantine/messages/x.json"
    damaged.parent.mkdir(parents=True, exist_ok=True)
    damaged.write_bytes(b"no JSON")
    asked = ["--archive", bucket.uri, "--message", message_id(1), "--by", "privacy", "--preview", "false"]

    with pytest.raises(DamagedObjectError, match=r"^quarantine/messages/x\.json is damaged"):
        erase.main(asked)
    assert _record(bucket)["done_at"] is None
    damaged.unlink()
    assert erase.main(asked) == 0
    assert [key for key, text in texts(bucket).items() if SECRET in text] == []


def test_a_file_is_rewritten_without_its_whole_text_in_memory(tmp_path: Path) -> None:
    """Firehose's files are deflated to a sixteenth, and a letter outside Latin-1 makes four bytes of each."""
    objects, key = FolderObjects(tmp_path), f"raw/messages/dt={DAY}/hour=12/1.gz"
    lines = b"".join(b'{"message_id": "%020d", "tags": ["%s"]}\n' % (n, "🍎".encode() * 40) for n in range(60_000))
    objects.replace(key, gzip.compress(lines))
    erased = f"{59_999:020d}"

    tracemalloc.start()
    changed = rewrite_object(objects, key, lambda _, text: text.replace(erased, "x"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert changed
    assert gzip.decompress((tmp_path / key).read_bytes()) == lines.replace(erased.encode(), b"x")
    assert peak < len(lines)


def test_a_message_of_which_two_erasures_took_something_names_the_first() -> None:
    one = {**written(1, SECRET), "salt": "5a" * 16}
    bare = forget_parts(forget_parts(one, [Part.BODY], erasure="first"), [Part.PROPERTIES], erasure="second")

    assert (sorted(bare["hashes"]), bare["erasure"]) == (["body", "properties"], "first")


ASKED = ("--topic", "fruit", "--property", f"customer={SECRET}", "--before", "2026-11-25")
BY = ("--preview", "false", "--by", "privacy@example.org")


def roots(spark: SparkSession, bucket: S3Bucket) -> list[tuple[str, str, int, str]]:
    days = arguments.Window(date(2026, 11, 20), date(2026, 11, 22))
    return audit.roots(Archive.at(spark, bucket.uri), days)


@pytest.mark.timeout(400)
def test_nothing_of_it_is_left_and_the_roots_of_its_days_are_the_same(
    spark: SparkSession, s3_bucket: S3Bucket, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = filled(s3_bucket, "erased")
    before = roots(spark, bucket)
    certificate = f"reports/audit/{DAY}{name_of_subject('key', SECRET)}/certificate.json"
    listed = {"property": f"customer={SECRET}", "listed": [{"message_id": message_id(1)}]}
    bucket.write(certificate, json.dumps({"subject": listed}).encode())

    # The first try ends when the raw files are done.
    with monkeypatch.context() as patched:
        patched.setattr(erase, "rewrite_days", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            erase.main(["--archive", bucket.uri, *ASKED, *BY])
    assert erase.main(["--archive", bucket.uri, *ASKED, *BY]) == 0
    assert told()["messages"] == 3

    left = contents(bucket)
    assert [key for key, text in left.items() if SECRET in text] == []
    assert [key for key, text in left.items() if OTHER in text and key.startswith("raw/")]
    assert {key.split(" ")[0] for key in left if key.startswith("reports/backtest")} == {
        "reports/backtest/two/backtest.json"
    }
    assert roots(spark, bucket) == before
    archive = Archive.at(spark, bucket.uri)
    [named] = audit.erasures(archive, archive.records(RecordKind.MESSAGES))[1]
    assert named["messages"] == 2


@pytest.mark.nightly
def test_a_preview_changes_nothing_and_a_repetition_nothing_more(
    spark: SparkSession, s3_bucket: S3Bucket, told: Told
) -> None:
    bucket = filled(s3_bucket, "repeated")
    before = roots(spark, bucket)
    there = contents(bucket)
    assert erase.main(["--archive", bucket.uri, *ASKED]) == 0
    preview = told()
    assert (preview["messages"], preview["raw_files"], preview["curated_files"]) == (3, 2, 2)
    assert {key for key in contents(bucket).keys() ^ there.keys() if not key.startswith("keys/")} == set()
    assert erase.main(["--archive", bucket.uri, *ASKED, *BY]) == 0
    left = contents(bucket)
    _repeated(bucket, ["--archive", bucket.uri, *ASKED, *BY], left)
    # What was erased stays erased, also where days are made of their raw files again.
    assert compact.main(["--archive", bucket.uri, *WINDOW, "--rebuild", "true"]) == 0
    assert roots(spark, bucket) == before
    assert [key for key, text in contents(bucket).items() if SECRET in text] == []


def test_a_message_that_no_compaction_has_read_is_erased_too(
    spark: SparkSession, bucket: Bucket, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = iter(range(100))
    monkeypatch.setattr(arguments, "now_ms", lambda: NOON + 20 * LIFE_MS + next(hours) * 3_600_000)
    bucket.put("messages", DAY, story()[:2])
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0
    assert erase.main(["--archive", bucket.uri, *ASKED, *BY]) == 0
    first = _record(bucket)
    assert first["messages"] == 1
    bucket.put("messages", LATE_DAY, story()[2:])

    # An erasure that goes on erases what it did not know before, and is done when its last run has ended.
    with monkeypatch.context() as patched:
        patched.setattr(erase, "rewrite_days", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            erase.main(["--archive", bucket.uri, *ASKED, *BY])
    assert (_record(bucket)["messages"], _record(bucket)["done_at"]) == (2, None)
    # Another selection does not finish it, and may find nothing of it.
    assert erase.main(["--archive", bucket.uri, *ASKED[:-1], "2026-11-26"]) == 0
    assert told()["unfinished"] == [first["erasure"]]
    assert erase.main(["--archive", bucket.uri, *ASKED, *BY]) == 0
    assert told()["unfinished"] == []
    last = _record(bucket)
    assert last["asked_at"] == first["asked_at"] < first["done_at"] < last["done_at"]
    assert [key for key, text in texts(bucket).items() if SECRET in text] == []
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0
    assert [key for key, text in texts(bucket).items() if SECRET in text] == []


def test_a_run_counts_what_it_leaves_in_other_topics(spark: SparkSession, bucket: Bucket, told: Told) -> None:
    """A dead letter keeps the properties of its message, and may be in a topic that nobody thinks of."""
    letters = [written(4, SECRET, topic="dead"), written(5, OTHER, topic="dead")]
    bucket.put("messages", DAY, [*story()[:2], *letters, written(6, SECRET, topic="dead", at=NOON + 6 * LIFE_MS)])
    assert erase.main(["--archive", bucket.uri, *ASKED]) == 0
    preview = told()
    assert (preview["messages"], preview["other_topics"]) == (1, [{"topic": "dead", "messages": 1}])
    assert erase.main(["--archive", bucket.uri, "--message", letters[0]["message_id"]]) == 0
    assert told()["other_topics"] == []


@pytest.mark.parametrize("is_compacted", [True, False])
def test_a_message_in_a_file_named_by_the_day_before_is_erased_too(
    spark: SparkSession, bucket: Bucket, is_compacted: bool
) -> None:
    # Firehose names a file by its oldest record.
    midnight = NOON - LIFE_MS // 2
    one = written(1, SECRET, at=midnight + 1_000)
    bucket.put("messages", "2026-11-19", [written(2, OTHER, at=midnight - 1_000), one], hour="23")
    if is_compacted:
        assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0

    assert erase.main(["--archive", bucket.uri, "--message", one["message_id"], *BY]) == 0
    assert [key for key, text in texts(bucket).items() if SECRET in text] == []


def test_an_uncompacted_replay_is_erased_by_the_id_of_a_message_whose_record_is_gone(
    spark: SparkSession, bucket: Bucket, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = written(3, SECRET, at=NOON + LIFE_MS, replay_of=message_id(1))
    bucket.put("messages", LATE_DAY, [replay])
    asked = ["--archive", bucket.uri, "--message", message_id(1), *BY]
    spark.conf.set(PARTITIONS, "200")  # Spark's default: as many tasks, each with a process of Python.
    with monkeypatch.context() as patched:
        patched.setattr(arguments, "now_ms", lambda: replay["expires_at"])
        assert erase.main(asked) == 1
    assert spark.conf.get(PARTITIONS) == "1"
    assert replay["message_id"] in told()["message_ids"]

    assert erase.main(asked) == 0
    summary = told()
    assert (summary["messages"], summary["unknown"]) == (1, 1)
    assert [key for key, text in texts(bucket).items() if SECRET in text] == []


def test_a_compaction_of_a_new_day_survives_an_erasure_of_it_in_between(
    spark: SparkSession, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, swap, rewritten = Archive.at(spark, bucket.uri), manifests.swap, list[int]()

    def swapped(objects: Objects, root: str, before: Manifest, *made: Any) -> None:
        if before.kind is RecordKind.MESSAGES and not rewritten:
            rewritten.append(0)
            rewritten[0] = erase.rewrite_days(archive, [DAY], lambda rows: rows)
        swap(objects, root, before, *made)

    monkeypatch.setattr(manifests, "swap", swapped)
    bucket.put("messages", LATE_DAY, story()[:2])
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0

    assert rewritten == [1]
    assert archive.records(RecordKind.MESSAGES, [DAY]).count() == 2


def test_the_later_of_two_erasures_of_a_day_starts_again(spark: SparkSession, bucket: Bucket) -> None:
    archive, changed = Archive.at(spark, bucket.uri), list[int]()
    bucket.put("messages", DAY, story()[:2])
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0

    def change(rows: DataFrame) -> DataFrame:
        changed.append(0)
        if len(changed) == 1:
            erase.rewrite_days(archive, [DAY], lambda others: others)
        return rows

    assert erase.rewrite_days(archive, [DAY], change) == 1
    assert len(changed) == 2
    assert archive.records(RecordKind.MESSAGES, [DAY]).count() == 2


def _record(bucket: Bucket) -> dict[str, Any]:
    [text] = [text for key, text in texts(bucket).items() if key.endswith("record.json")]
    record: dict[str, Any] = json.loads(text)
    return record


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
    spark: SparkSession, bucket: Bucket, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = written(1, SECRET)
    unknown = message_id(9, one["accepted_at"])
    again = written(5, SECRET, replay_of=one["message_id"])
    chain = [again, written(6, SECRET, replay_of=again["message_id"])]
    bucket.put(
        "messages", DAY, [one, *chain, json.dumps(written(9, SECRET, tags=["a\u2028b"]), ensure_ascii=False)[:-20]]
    )
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0
    kept = texts(bucket)
    monkeypatch.setattr(arguments, "now_ms", lambda: one["expires_at"] + erase.RECEIPTS_GONE_MS - 1)
    # Of the second only a damaged line is there.
    asked = f"{one['message_id']},{unknown}"
    given = ["--archive", bucket.uri, "--message", asked, "--preview", "false", "--by", "me"]
    assert erase.main(given) == 1
    refused = told()
    assert refused["detail"].startswith("nothing can be erased before 2026-")
    assert refused["message_ids"] == [one["message_id"], *(each["message_id"] for each in chain), unknown]
    assert texts(bucket) == kept
    monkeypatch.setattr(arguments, "now_ms", lambda: one["expires_at"] + erase.RECEIPTS_GONE_MS)
    assert erase.main(given) == 0
    assert (told()["messages"], [key for key, text in texts(bucket).items() if SECRET in text]) == (3, [])


def test_a_rewritten_day_still_tells_of_records_that_differed_from_others_of_their_id(
    spark: SparkSession, bucket: Bucket
) -> None:
    bucket.put("messages", DAY, [*story()[:2], {**story()[0], "content_type": "text/other"}])
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0
    archive = Archive.at(spark, bucket.uri)

    erase.rewrite_days(archive, [DAY], lambda rows: rows)

    [manifest] = manifests.read(archive.objects, RecordKind.MESSAGES, [DAY])
    made = manifests.read_summary(archive.objects, manifest)
    assert made is not None
    assert (made.records, made.conflicts) == (2, 1)


def test_a_connector_that_keeps_markers_of_folders_changes_no_manifest(
    spark: SparkSession, s3_bucket: S3Bucket
) -> None:
    """S3A of Hadoop 3.4, which Glue 5.1 has, keeps an empty object with the name of each folder that it makes."""
    s3_bucket.client.create_bucket(Bucket="marked")
    bucket = S3Bucket("s3://marked", client=s3_bucket.client)
    spark._jsc.hadoopConfiguration().set("fs.s3a.bucket.marked.directory.marker.retention", "keep")
    bucket.put("messages", DAY, story()[:2])
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0
    archive = Archive.at(spark, bucket.uri)

    assert erase.rewrite_days(archive, [DAY], lambda rows: rows) == 1

    assert any(key.endswith(f"/dt={DAY}/") for key in bucket.keys("curated/messages/data/")), "it keeps them"
    [manifest] = manifests.read(archive.objects, RecordKind.MESSAGES, [DAY])
    assert [key.rpartition(".")[2] for key in manifest.files] == ["parquet"]
    assert archive.records(RecordKind.MESSAGES, [DAY]).count() == 2
    bucket.put("messages", DAY, story()[2:3])
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0
