"""The newest files of the archive on S3: what a day has, page by page, and their lines."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws
from tagcast.archive.change_records import records_of
from tagcast.archive.record import RecordKind, RowChange
from tagcast.errors import UnavailableError
from tagcast.operating.history import HistoryFilter, read_history
from tagcast_aws.store.archives import S3MessageArchive

from tests.fakes.pages import pages
from tests.fakes.world import FakeWorld

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

DAY = 1_800_000_000_000 // 86_400_000 * 86_400_000
FOLDER = f"raw/messages/{datetime.fromtimestamp(DAY / 1000, UTC):dt=%Y-%m-%d}/"


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="archive")
        yield client


def test_the_files_of_a_day_are_on_several_pages_and_the_last_comes_first() -> None:
    client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="1", aws_secret_access_key="2")
    asked = {"Bucket": "archive", "Prefix": FOLDER}
    with Stubber(client) as stub:
        for number in range(3):
            came = datetime.fromtimestamp(DAY / 1000 + number, UTC)
            contents = {"Contents": [{"Key": f"{FOLDER}{name}{number}.gz", "LastModified": came} for name in "ab"]}
            more = {"IsTruncated": number < 2, "NextContinuationToken": f"t{number + 1}"}
            given = asked | ({"ContinuationToken": f"t{number}"} if number else {})
            stub.add_response("list_objects_v2", contents | more, given)

        found = S3MessageArchive(lambda: client, "archive").files(DAY)
        stub.assert_no_pending_responses()

    assert [file.name.removeprefix(FOLDER) for file in found] == ["b2.gz", "a2.gz", "b1.gz", "a1.gz", "b0.gz", "a0.gz"]
    assert found[0].arrived_at == DAY + 2_000


class Bucket:
    """An S3 client of one bucket, whose objects came at chosen instants."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[int, bytes]] = {}

    def put(self, key: str, came_at: int, lines: list[str]) -> None:
        self.objects[key] = came_at, gzip.compress("".join(f"{line}\n" for line in lines).encode())

    def get_paginator(self, operation: str) -> Bucket:
        return self

    def paginate(self, Bucket: str, Prefix: str) -> Iterator[dict[str, Any]]:  # noqa: N803  The names of boto3.
        found = [(key, came_at) for key, (came_at, _) in self.objects.items() if key.startswith(Prefix)]
        yield {"Contents": [{"Key": key, "LastModified": datetime.fromtimestamp(at / 1000, UTC)} for key, at in found]}

    def get_object(self, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        return {"Body": BytesIO(self.objects[Key][1])}


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_history_has_a_file_of_yesterday_that_arrived_after_a_file_of_today(limit: int) -> None:
    fakes, bucket = FakeWorld(), Bucket()
    fakes.topic()
    fakes.subscribe("a")

    def archive(accepted_at: int, arrived_at: int) -> str:
        fakes.clock.instant = accepted_at
        [message_id] = fakes.publish("x")
        fakes.deliver()
        row = next(each for key, each in fakes.store.rows.items() if key.sk == "MSG" and key.pk.endswith(message_id))
        lines = [each.line() for each in records_of(RowChange(None, row, 0), bool) if each.kind is RecordKind.MESSAGES]
        # Firehose names the folder by the first record of a file.
        folder = f"{datetime.fromtimestamp(accepted_at / 1000, UTC):raw/messages/dt=%Y-%m-%d/hour=%H}"
        bucket.put(f"{folder}/{message_id}.gz", arrived_at, lines)
        return message_id

    midnight = DAY + 86_400_000
    yesterday = archive(midnight - 10_000, arrived_at=midnight + 55_000)
    today = archive(midnight + 2_000, arrived_at=midnight + 9_000)
    fakes.clock.instant = midnight + 60_000
    world = replace(fakes.world, message_archive=S3MessageArchive(lambda: cast("S3Client", bucket), "archive"))

    since = HistoryFilter(midnight - 3_600_000)
    found = pages(lambda cursor: read_history(world, "test1", since, limit, cursor))

    assert [view.message.message_id for page in found for view in page.messages] == [today, yesterday]


def test_a_file_of_several_members_is_read_line_by_line(s3: Any) -> None:
    members = [gzip.compress(b'{"a": 1}\n{"a": 2}\n'), gzip.compress(b'{"a": 3}\n')]
    s3.put_object(Bucket="archive", Key="x.gz", Body=b"".join(members))

    assert list(S3MessageArchive(lambda: s3, "archive").lines("x.gz")) == [b'{"a": 1}\n', b'{"a": 2}\n', b'{"a": 3}\n']


@pytest.mark.parametrize(
    "torn", [gzip.compress(b'{"a": 1}\n' * 100)[:-9], gzip.compress(b"")[:10] + b"of another kind"]
)
def test_a_file_that_is_gone_has_no_lines_and_one_that_does_not_inflate_is_said(s3: Any, torn: bytes) -> None:
    s3.put_object(Bucket="archive", Key="x.gz", Body=torn)
    archive = S3MessageArchive(lambda: s3, "archive")

    assert list(archive.lines("gone.gz")) == []
    with pytest.raises(UnavailableError):
        list(archive.lines("x.gz"))


def test_a_bucket_that_does_not_answer_is_said(s3: Any) -> None:
    archive = S3MessageArchive(lambda: s3, "absent")
    with pytest.raises(UnavailableError):
        archive.files(DAY)
    with pytest.raises(UnavailableError):
        list(archive.lines("x"))
