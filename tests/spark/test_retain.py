"""Bodies and properties go at their age, wherever they are, and nothing brings them back."""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tagcast.archive.record import RecordKind
from tagcast.filters.kinds import compile_filter

from glue_jobs import audit, compact, package, replay, retain
from glue_jobs.auditing.history import FOREVER, FilterInForce
from glue_jobs.erasing.contents import Part
from glue_jobs.erasing.places import name_of_subject
from glue_jobs.io import arguments
from glue_jobs.io.objects import DamagedObjectError, FolderObjects
from glue_jobs.io.storage import Archive
from glue_jobs.retaining.aged import AgedErasure
from tests.spark.conftest import Bucket, S3Bucket, Told
from tests.spark.story import DAY, LIFE_MS, NOON, Record, message, settings, subscribed
from tests.spark.test_compact_interrupted import Dying, KilledError
from tests.spark.test_erase import contents, texts

OLD, YOUNG, LATE = DAY, "2026-11-24", "2026-12-03"
NOW = arguments.moment("2026-12-02T03:10:00Z")
WINDOW = arguments.Window(date(2026, 11, 20), date(2026, 12, 4))
DAYS = ("--from", "2026-11-20", "--to", "2026-12-04")
# Bodies of both days are due, properties of the older one.
GIVEN = ("--bodies-days", "7", "--properties-days", "10", "--kept-days", "1095")


def written(number: int, mark: str, *, at: int = NOON) -> Record:
    return message(number, at=at, body=f"body {mark}", body_bytes=8, properties={"p": f"property {mark}"})


def scene() -> dict[str, list[Record | str]]:
    young = NOON + 4 * LIFE_MS
    return {
        OLD: [written(1, "old"), message(2), json.dumps(written(3, "cut"))[:-9]],
        YOUNG: [written(4, "young", at=young), json.dumps(written(5, "other", at=young))[:-9]],
        "2026-11-28": [written(6, "new", at=NOON + 8 * LIFE_MS)],
    }


def fill(bucket: Bucket) -> None:
    for day, records in scene().items():
        bucket.put("messages", day, records)
    pattern = '{"kind": "event_pattern", "pattern": {"n": [1]}}'
    bucket.put("subscriptions", OLD, subscribed("fruit", 0, pattern) + subscribed("fruit", 1))
    bucket.put("subscriptions", OLD, [settings("fruit", 0)])
    lost = base64.b64encode(f"{json.dumps(written(7, 'lost'))}\n".encode()).decode()
    bucket.write(f"failed/messages/x/dt={OLD}/1", json.dumps({"rawData": lost}).encode())
    for name, at in (("old", NOON), ("new", NOON + 8 * LIFE_MS)):
        report = {"candidates": [{"filter": None}], "samples": [{"accepted_at": at, "properties": f"property {name}"}]}
        bucket.write(f"reports/backtest/{name}/backtest.json", json.dumps(report).encode())
        bucket.write(f"reports/backtest/{name}/index.html", b"the same for people")


def marks(texts: dict[str, str]) -> set[str]:
    """What of the contents is left anywhere."""
    every = "\n".join(texts.values())
    words = (
        f"{part} {mark}"
        for part in ("body", "property")
        for mark in ("old", "cut", "young", "other", "new", "lost", "late")
    )
    return {each for each in words if each in every}


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "now_ms", lambda: NOW)


def compacted(bucket: Bucket) -> None:
    assert compact.main(["--archive", bucket.uri, *DAYS]) == 0


def retained(bucket: Bucket, told: Told) -> dict[str, Any]:
    assert retain.main(["--archive", bucket.uri, *GIVEN, "--preview", "false"]) == 0
    return told()


@pytest.mark.timeout(400)
def test_each_part_goes_at_its_age_everywhere_and_a_late_record_loses_it_too(
    spark: SparkSession, s3_bucket: S3Bucket, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = s3_bucket.client
    client.create_bucket(Bucket="retained")
    client.put_bucket_versioning(Bucket="retained", VersioningConfiguration={"Status": "Enabled"})
    bucket = S3Bucket("s3://retained", client=client)
    fill(bucket)
    compacted(bucket)
    archive = Archive.at(spark, bucket.uri)
    before = audit.roots(archive, WINDOW)

    with monkeypatch.context() as patched:
        patched.setattr(retain, "rewrite_days", _killed)
        with pytest.raises(KilledError):
            retain.main(["--archive", bucket.uri, *GIVEN, "--preview", "false"])
    first = retained(bucket, told)

    assert first["until"] == {"body": YOUNG, "properties": "2026-11-21"}
    assert (first["days"], first["files_of_lines"], first["reports"]) == ([OLD, YOUNG], 0, 2)
    # A damaged line goes at the age of both, since nobody knows what it holds.
    left = {"body new", "property young", "property new"}
    assert marks(contents(bucket)) == left
    assert audit.roots(archive, WINDOW) == before
    rows = {row.record_id[-2:]: row for row in archive.records(RecordKind.MESSAGES).collect()}
    assert (
        {key: sorted(row.hashes or ()) for key, row in rows.items()}
        == {
            message(1)["message_id"][-2:]: ["body", "properties"],
            message(2)["message_id"][-2:]: [],
            scene()[YOUNG][0]["message_id"][-2:]: ["body"],  # type: ignore[index]
            scene()["2026-11-28"][0]["message_id"][-2:]: [],  # type: ignore[index]
        }
    )
    assert nothing_is_due(archive)

    # Another record of the day, and a copy of one that it has, come when the day is done.
    bucket.put("messages", LATE, [written(8, "late"), written(1, "old")])
    compacted(bucket)
    second = retained(bucket, told)
    assert (second["days"], second["files_of_lines"]) == ([OLD], 1)
    assert marks(contents(bucket)) == left
    assert archive.records(RecordKind.MESSAGES, [OLD]).count() == 3
    assert nothing_is_due(archive)
    volume = replay.preview(archive.records(RecordKind.MESSAGES), [compile_filter(None)])
    assert (volume["messages"], volume["without_body"], volume["parts_gone"]) == (1, 1, 3)


@pytest.mark.nightly
@pytest.mark.usefixtures("spark")
def test_the_script_that_glue_starts_erases_what_is_due(bucket: Bucket, tmp_path: Path) -> None:
    """A worker knows no class of the script that was started."""
    fill(bucket)
    compacted(bucket)
    assert package.main([str(tmp_path)]) == 0
    arguments = ["--archive", bucket.uri, "--bodies-days", "7", "--preview", "false", "--date", DAY]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / package.ARCHIVE)}
    ended = subprocess.run(
        [sys.executable, "-P", str(tmp_path / "retain.py"), *arguments],
        env=environment, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=200,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr[-2_000:]
    assert "body old" not in "\n".join(texts(bucket).values())


def test_of_a_day_that_is_done_the_files_that_came_since_are_left_to_do(tmp_path: Path) -> None:
    objects, until = FolderObjects(tmp_path), {Part.BODY: DAY}
    first, late = (f"raw/messages/dt={DAY}/hour=12/{name}.gz" for name in ("1", "2"))
    for key in (first, late):
        objects.replace(key, b"")
    objects.replace(retain.done_key(DAY), json.dumps({"until": until, "files": [first]}).encode())
    objects.replace(compact.ledger_key(RecordKind.MESSAGES, DAY), json.dumps({first: [DAY], late: [DAY]}).encode())

    assert retain.list_pending_files(objects, DAY, (), until).pending == (late,)


def test_an_uncompacted_file_that_lost_its_bodies_loses_its_properties_when_they_are_due(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    key = f"raw/messages/dt={DAY}/hour=12/1.gz"
    objects.replace(key, b"")
    objects.replace(retain.done_key(DAY), json.dumps({"until": {Part.BODY: DAY}, "files": [key]}).encode())

    assert retain.list_pending_files(objects, DAY, (), {Part.BODY: DAY}).pending == ()
    assert retain.list_pending_files(objects, DAY, (), {Part.BODY: DAY, Part.PROPERTIES: DAY}).pending == (key,)


def test_a_record_of_the_next_day_in_a_file_that_firehose_could_not_deliver_loses_its_body_when_it_is_due(
    tmp_path: Path,
) -> None:
    objects, key = FolderObjects(tmp_path), f"failed/messages/x/dt={DAY}/1"
    objects.replace(retain.done_key(DAY), json.dumps({"until": {Part.BODY: DAY}, "files": [key]}).encode())

    assert retain.list_pending_files(objects, DAY, [key], {Part.BODY: DAY}).pending == ()
    assert retain.list_pending_files(objects, DAY, [key], {Part.BODY: "2026-11-21"}).pending == (key,)
    objects.replace(retain.done_key(DAY), json.dumps({"until": {Part.BODY: "2026-11-21"}, "files": [key]}).encode())
    assert retain.list_pending_files(objects, DAY, [key], {Part.BODY: "2026-11-22"}).pending == ()


def test_a_certificate_of_a_topic_stays_whatever_the_topic_s_name(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    of_topic = f"reports/audit/{DAY}_copy_of_0123456789ab/certificate.json"
    of_customer = f"reports/audit/{DAY}_copy{name_of_subject('key', 'customer=42')}/certificate.json"
    for key in (of_topic, of_customer):
        objects.replace(key, json.dumps({"window": DAY}).encode())

    assert retain.quoting(objects, {Part.PROPERTIES: DAY}) == [of_customer]


def test_a_backtest_of_a_filter_that_this_release_cannot_read_may_quote_any_part(tmp_path: Path) -> None:
    objects, key = FolderObjects(tmp_path), "reports/backtest/one/backtest.json"
    samples = [{"accepted_at": NOON}]
    objects.replace(key, json.dumps({"candidates": [{"filter": {"kind": "later"}}], "samples": samples}).encode())

    assert retain.quoting(objects, {Part.BODY: DAY}) == [key]


@pytest.mark.parametrize("content", [b"no JSON", b"[1]", b'{"samples": [{}]}', b"\xff"])
def test_a_report_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    objects, key = FolderObjects(tmp_path), "reports/backtest/one/backtest.json"
    objects.replace(key, content)

    with pytest.raises(DamagedObjectError, match=f"^{key} is damaged .*: restore or delete it, and run the job again$"):
        retain.quoting(objects, {Part.BODY: DAY})


def test_what_filters_said_of_a_part_that_went_stays_when_the_next_part_goes() -> None:
    """Their bodies go first, then their properties."""
    pattern = '{"kind": "event_pattern", "pattern": {"n": [1]}}'
    sql = '{"kind": "sql92", "expression": "p = \'1\'"}'
    filters = [FilterInForce(n, each, 1, FOREVER, None, False, 1) for n, each in enumerate((pattern, sql))]
    one: Any = {**message(1, body='{"n": 1}', properties={"p": "1"}), "salt": "5a" * 16}

    without_body = AgedErasure("key", {Part.BODY: DAY}, {"fruit": filters}).erase_record(one)
    assert without_body is not None
    bare = AgedErasure("key", {Part.BODY: DAY, Part.PROPERTIES: DAY}, {"fruit": filters}).erase_record(without_body)
    assert bare is not None

    assert (without_body["matching"], bare["matching"]) == (["0.1"], ["0.1", "1.1"])
    assert sorted(bare["hashes"]) == ["body", "properties"]


def nothing_is_due(archive: Archive) -> bool:
    until = retain.until_of({Part.BODY: 7, Part.PROPERTIES: 10}, NOW)
    days = retain.curated_to_do(archive.objects, retain.due_days(archive, until), until)
    return not days and not retain.to_do(archive, until) and not retain.quoting(archive.objects, until)


def _killed(*_: object) -> None:
    raise KilledError


def state(bucket: Bucket) -> tuple[set[str], list[tuple[str, str]]]:
    found = texts(bucket)
    lines = [(key, text) for key, text in sorted(found.items()) if not key.startswith(("curated/messages/", "keys/"))]
    return marks(found), lines


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_killed_anywhere_or_raced_it_ends_the_same(
    spark: SparkSession, new_bucket: Callable[[], Bucket], told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = new_bucket()
    fill(origin)
    compacted(origin)

    def copy() -> Bucket:
        bucket = new_bucket()
        shutil.copytree(origin.uri, bucket.uri, dirs_exist_ok=True)
        return bucket

    whole = copy()
    retained(whole, told)
    expected, opened = state(whole), Archive.objects.fget  # type: ignore[attr-defined]

    def disturbed(bucket: Bucket, left: int, happens: Callable[[], None]) -> Dying:
        """Let something happen before the driver's write of that number."""
        dying = Dying(opened(Archive.at(spark, bucket.uri)), left, happens=happens)
        monkeypatch.setattr(Archive, "objects", property(lambda archive: dying))
        with suppress(KilledError):
            retained(bucket, told)
        monkeypatch.setattr(Archive, "objects", property(opened))
        return dying

    def other_run(bucket: Bucket) -> None:
        monkeypatch.setattr(Archive, "objects", property(opened))
        retained(bucket, told)

    left = 0
    reached = True
    while reached:
        left += 1
        for happens in (_killed, other_run):
            monkeypatch.setattr(arguments, "now_ms", lambda: NOW)
            bucket = copy()
            reached = disturbed(bucket, left, partial(happens, bucket)).left <= 0
            # A day later, when nobody can be at work any more: then nothing else is due.
            monkeypatch.setattr(arguments, "now_ms", lambda: NOW + LIFE_MS + 60_000)
            retained(bucket, told)
            assert state(bucket) == expected, (left, happens)
    assert left > 5
