"""A compaction that is killed, repeated, or done by two at once comes to the same days, and readers see whole ones."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.httpsession import URLLib3Session
from pyspark.sql import SparkSession
from tagcast.archive.record import RecordKind

from glue_jobs import compact
from glue_jobs.io import manifests
from glue_jobs.io.arguments import Window
from glue_jobs.io.objects import BucketObjects, FolderObjects, LostRaceError, Objects, Stored
from glue_jobs.io.storage import Archive
from tests.spark.conftest import Bucket, S3Bucket
from tests.spark.story import DAY, LIFE_MS, NOON, message

KIND = RecordKind.MESSAGES
DAYS = (DAY, "2026-11-21", "2026-11-22")
WINDOW = Window(date(2026, 11, 20), date(2026, 11, 23))


class KilledError(BaseException):
    """The process ends here."""


@dataclass
class Dying:
    """The objects of an archive; before the write that is number *left*, or right after it, *happens* happens."""

    real: Objects
    left: int
    after: bool = False
    happens: Callable[[], None] = field(default=lambda: (_ for _ in ()).throw(KilledError()))

    def _one(self, write: Callable[[], None]) -> None:
        self.left -= 1
        if self.left or self.after:
            write()
        if not self.left:
            self.happens()
            if not self.after:
                write()

    def read(self, key: str) -> Stored | None:
        return self.real.read(key)

    def sizes(self, prefix: str) -> dict[str, int]:
        return self.real.sizes(prefix)

    def write(self, key: str, content: bytes, seen: Stored | None) -> None:
        self._one(lambda: self.real.write(key, content, seen))

    def replace(self, key: str, content: bytes) -> None:
        self._one(lambda: self.real.replace(key, content))

    def remove(self, keys: Iterable[str]) -> None:
        found = list(keys)
        self._one(lambda: self.real.remove(found))

    def purge(self, prefix: str) -> int:
        return self.real.purge(prefix)


def ids(numbers: Iterable[int]) -> list[str]:
    return [message(n, at=NOON + n % 3 * LIFE_MS)["message_id"] for n in sorted(numbers)]


def put(bucket: Bucket, numbers: Iterable[int], arrived: str) -> None:
    bucket.put("messages", arrived, [message(n, at=NOON + n % 3 * LIFE_MS) for n in numbers])


def read(archive: Archive) -> dict[str, list[str]]:
    return {day: [row.message_id for row in archive.records(KIND, [day]).collect()] for day in DAYS}


def expected(numbers: Iterable[int]) -> dict[str, list[str]]:
    return {day: ids(n for n in set(numbers) if n % 3 == place) for place, day in enumerate(DAYS)}


def run(archive: Archive, objects: Objects) -> compact.Compacted:
    return compact._Run(archive, objects, KIND, WINDOW, rebuild=False).run()


def steps(seed: int) -> list[tuple[int, bool]]:
    """Where runs are killed: writes are marks, swaps, removals and ledgers, of three days."""
    dice = random.Random(seed)
    return [(dice.randint(1, 9), dice.random() < 0.5) for _ in range(3)]


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(2, 40))])
def test_killed_anywhere_the_next_run_makes_it_good(spark: SparkSession, bucket: Bucket, seed: int) -> None:
    archive = Archive.at(spark, bucket.uri)
    there: set[int] = set()
    for number, (left, after) in enumerate(steps(seed)):
        late = {*range(number * 20, number * 20 + 12), *range(max(0, number * 20 - 4), number * 20)}
        before = read(archive)
        put(bucket, late, DAYS[number])
        there |= late
        try:
            run(archive, Dying(archive.objects, left, after))
        except KilledError:
            for day, found in read(archive).items():
                assert found in (before[day], expected(there)[day]), "a reader sees a whole day"
    run(archive, archive.objects)
    assert read(archive) == expected(there)
    before_files = bucket.keys("curated/")
    assert run(archive, archive.objects).read_files == 0
    assert bucket.keys("curated/") == before_files


@pytest.mark.parametrize("place", ["folder", "s3"])
def test_of_two_at_once_one_is_refused_and_goes_on_with_what_the_other_made(
    spark: SparkSession, bucket: Bucket, s3_bucket: S3Bucket, place: str
) -> None:
    used: Any = bucket
    if place == "s3":
        s3_bucket.client.create_bucket(Bucket="raced")
        used = S3Bucket("s3://raced", client=s3_bucket.client)
    archive = Archive.at(spark, used.uri)
    put(used, range(6), DAY)

    def other() -> None:
        put(used, range(6, 12), DAY)
        run(archive, archive.objects)

    # The first two writes are the mark and the manifest of the first day.
    with pytest.raises(LostRaceError):
        run(archive, Dying(archive.objects, 2, happens=other))
    assert read(archive) == expected(range(12))
    assert compact.compact(archive, KIND, WINDOW).read_files == 0
    assert read(archive) == expected(range(12))


def generations(objects: FolderObjects, day: str, current: int | None) -> list[str]:
    """Store generations that began at 1 to 4, and name the *current* one; return the keys of all."""
    names = [f"curated/messages/data/{begun:013d}-a/dt={day}/1.parquet" for begun in (1, 2, 3, 4)]
    for name in names:
        objects.replace(name, b"")
    if current is not None:
        objects.replace(manifests.manifest_key(KIND, day), f"s3://b/{names[current - 1]}\n".encode())
    return names


def test_files_of_a_run_that_is_at_work_are_not_former_ones(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    names, unnamed = generations(objects, DAY, 2), generations(objects, DAYS[-1], None)

    # Other days are cleaned, too, if they have several generations.
    assert sorted(manifests.former(objects, KIND, [DAY], 4)) == sorted([names[0], names[2], *unnamed[:3]])


def test_files_replaced_a_moment_ago_stay_however_old_they_are(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    names = generations(objects, DAY, 4)

    assert manifests.former(objects, KIND, [DAY], 4) == []
    assert manifests.former(objects, KIND, [DAY], 5) == names[:3]


def test_replaced_files_stay_for_a_day_then_go(
    spark: SparkSession, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive.at(spark, bucket.uri)
    put(bucket, range(3), DAY)
    run(archive, archive.objects)
    first = {key for key in bucket.keys("curated/messages/data/") if key.endswith(".parquet")}
    put(bucket, range(3, 6), DAY)
    run(archive, archive.objects)
    assert first < set(bucket.keys("curated/messages/data/"))
    put(bucket, range(6, 9), DAY)
    monkeypatch.setattr(compact, "KEPT_MS", -1)
    run(archive, archive.objects)
    named = {key for each in manifests.read(archive.objects, KIND, DAYS) for key in each.files}
    assert {key for key in bucket.keys("curated/messages/data/") if key.endswith(".parquet")} == named
    assert read(archive) == expected(range(9))


def test_a_job_on_s3a_names_the_files_as_athena_reads_them(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    [before] = manifests.read(objects, KIND, [DAY])
    key = f"{manifests.data_prefix(KIND, '7-a')}dt={DAY}/f.parquet"
    manifests.swap(objects, "s3a://shop", before, [key], manifests.GenerationSummary(1, 1))

    assert (tmp_path / manifests.manifest_key(KIND, DAY)).read_text() == f"s3://shop/{key}\n"
    assert [each.files for each in manifests.read(objects, KIND, [DAY])] == [(key,)]


def test_a_swap_whose_first_answer_was_lost_is_no_race(s3_bucket: S3Bucket) -> None:
    """botocore repeats the write, and S3 refuses the repetition: the manifest is not the one that was read."""
    client, statuses = boto3.client("s3", endpoint_url=s3_bucket.client.meta.endpoint_url), list[int]()
    client.create_bucket(Bucket="swaps")
    objects = BucketObjects(client, "swaps")

    def lose_the_first(request: Any, **_: Any) -> AWSResponse | None:
        if not request.url.endswith("/files"):
            return None
        answer = URLLib3Session().send(request)
        statuses.append(answer.status_code)
        return AWSResponse(request.url, 500, HTTPHeaders(), answer.raw) if len(statuses) % 2 else answer

    events: Any = client.meta.events
    events.register("before-send.s3.PutObject", lose_the_first)
    for generation in ("7-a", "8-b"):
        [before] = manifests.read(objects, RecordKind.LANES, [DAY])
        key = f"{manifests.data_prefix(RecordKind.LANES, generation)}dt={DAY}/f.parquet"
        manifests.swap(objects, "s3://swaps", before, [key], manifests.GenerationSummary(1, 1))
        assert [each.files for each in manifests.read(objects, RecordKind.LANES, [DAY])] == [(key,)]
    assert statuses == [200, 412, 200, 412]
