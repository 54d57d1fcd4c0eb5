"""The archive's newest files on S3, as Firehose writes them: ``raw/messages/dt=YYYY-MM-DD/hour=HH/``, gzip."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.errors import UnavailableError
from tagcast.instant import DAY_MS
from tagcast.ports import ArchivedFile

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

AWAY = "the archive does not answer; try again"


class S3MessageArchive:
    """Implements the port ``MessageArchive``. The client is created on first use."""

    def __init__(self, make_client: Callable[[], S3Client], bucket: str) -> None:
        self._make_client = make_client
        self._bucket = bucket

    def files(self, day: int) -> Sequence[ArchivedFile]:
        """Return the files in the folder of the day that begins at *day*, newest first.

        Firehose names the folder by a file's first record, and may write the file on the next day. Such a file counts
        as arrived at the end of its day, before every file of the next day.
        """
        prefix = f"raw/messages/{datetime.fromtimestamp(day / 1000, UTC):dt=%Y-%m-%d/}"
        found: list[ArchivedFile] = []
        try:
            listing = self._make_client().get_paginator("list_objects_v2")
            for page in listing.paginate(Bucket=self._bucket, Prefix=prefix):
                found += [
                    ArchivedFile(each["Key"], min(round(each["LastModified"].timestamp() * 1000), day + DAY_MS - 1))
                    for each in page.get("Contents", ())
                ]
        except (ClientError, BotoCoreError) as error:
            raise UnavailableError(AWAY) from error
        return sorted(found, key=lambda each: (each.arrived_at, each.name), reverse=True)

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a file while it is downloaded; none if the file is gone."""
        client = self._make_client()
        try:
            body = client.get_object(Bucket=self._bucket, Key=name)["Body"]
            with gzip.GzipFile(fileobj=body) as file:
                yield from file
        except client.exceptions.NoSuchKey:
            return
        except (ClientError, BotoCoreError, OSError, EOFError, zlib.error) as error:
            raise UnavailableError(AWAY) from error
