"""Compiled topic indexes on S3, and the archive's newest files, as Firehose writes them.

Those are gzip files in ``raw/messages/dt=YYYY-MM-DD/hour=HH/``.
"""

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

from tagcast_aws.runtime.aws_clients import error_code

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_s3 import S3Client

ARCHIVE_UNAVAILABLE = "the archive does not answer; try again"


class S3IndexArchive:
    """Implements the port ``IndexArchive``.

    The client is created for the first topic that is large enough for a stored index.
    """

    def __init__(self, make_client: Callable[[], S3Client], bucket: str, logger: Logger) -> None:
        self._make_client = make_client
        self._bucket = bucket
        self._logger = logger

    def load(self, name: str) -> bytes | None:
        """Return the stored index *name*, or None if it is missing or S3 fails."""
        try:
            return self._make_client().get_object(Bucket=self._bucket, Key=f"indexes/{name}")["Body"].read()
        except (ClientError, BotoCoreError) as error:
            if (code := error_code(error)) not in ("NoSuchKey", "404"):
                self._logger.warning("index not loaded", extra={"error": code})
        return None

    def save(self, name: str, content: bytes) -> None:
        """Store the index *name*. A failure is only logged: the next cold start compiles the index again."""
        try:
            self._make_client().put_object(Bucket=self._bucket, Key=f"indexes/{name}", Body=content)
        except (ClientError, BotoCoreError) as error:
            self._logger.warning("index not saved", extra={"error": error_code(error)})


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
            raise UnavailableError(ARCHIVE_UNAVAILABLE) from error
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
            raise UnavailableError(ARCHIVE_UNAVAILABLE) from error
