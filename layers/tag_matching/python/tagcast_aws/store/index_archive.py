"""Compiled topic indexes on S3."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from tagcast_aws.runtime.aws_clients import error_code

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_s3 import S3Client


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
            return self._make_client().get_object(Bucket=self._bucket, Key=_key(name))["Body"].read()
        except (ClientError, BotoCoreError) as error:
            if (code := error_code(error)) not in ("NoSuchKey", "404"):
                self._logger.warning("index not loaded", extra={"error": code})
        return None

    def save(self, name: str, content: bytes) -> None:
        """Store the index *name*. A failure is only logged: the next cold start compiles the index again."""
        try:
            self._make_client().put_object(Bucket=self._bucket, Key=_key(name), Body=content)
        except (ClientError, BotoCoreError) as error:
            self._logger.warning("index not saved", extra={"error": error_code(error)})


def _key(name: str) -> str:
    return f"indexes/{name}"
