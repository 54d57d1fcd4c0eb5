"""The newest files of the archive on S3: what a day has, page by page, and their lines."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws
from tagcast.errors import UnavailableError
from tagcast_aws.store.message_archive import S3MessageArchive

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


def test_a_file_of_several_members_is_read_line_by_line(s3: Any) -> None:
    members = [gzip.compress(b'{"a": 1}\n{"a": 2}\n'), gzip.compress(b'{"a": 3}\n')]
    s3.put_object(Bucket="archive", Key="x.gz", Body=b"".join(members))

    assert list(S3MessageArchive(lambda: s3, "archive").lines("x.gz")) == [b'{"a": 1}\n', b'{"a": 2}\n', b'{"a": 3}\n']


def test_a_file_that_is_gone_has_no_lines_and_a_torn_one_is_said(s3: Any) -> None:
    s3.put_object(Bucket="archive", Key="x.gz", Body=gzip.compress(b'{"a": 1}\n' * 100)[:-9])
    archive = S3MessageArchive(lambda: s3, "archive")

    assert list(archive.lines("gone.gz")) == []
    with pytest.raises(UnavailableError):
        list(archive.lines("x.gz"))


def test_a_file_that_does_not_inflate_is_said(s3: Any) -> None:
    s3.put_object(Bucket="archive", Key="x.gz", Body=gzip.compress(b"")[:10] + b"of another kind")

    with pytest.raises(UnavailableError):
        list(S3MessageArchive(lambda: s3, "archive").lines("x.gz"))


def test_a_bucket_that_does_not_answer_is_said(s3: Any) -> None:
    archive = S3MessageArchive(lambda: s3, "absent")
    with pytest.raises(UnavailableError):
        archive.files(DAY)
    with pytest.raises(UnavailableError):
        list(archive.lines("x"))
