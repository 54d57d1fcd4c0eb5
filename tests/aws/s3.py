"""S3: objects of the buckets that the template declares."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.response import StreamingBody

from tests.aws import limits
from tests.aws.box import Box, Call, Service
from tests.aws.faults import ApiError, UnplayedError


@dataclass(frozen=True, slots=True)
class Stored:
    """One object."""

    content: bytes
    etag: str
    changed_at: datetime


class S3(Service):
    """All buckets, by name; each has its objects by key."""

    name = "s3"
    denied = "AccessDenied"
    throttled = ("SlowDown", 503)
    failed = ("InternalError", 500)

    def __init__(self, box: Box) -> None:
        super().__init__(box)
        self.buckets: dict[str, dict[str, Stored]] = {}
        self.told: list[Callable[[str, str], None]] = []
        """Are told the bucket and the key of every object that is put."""

    def create(self, name: str) -> dict[str, Stored]:
        """Make a bucket."""
        return self.buckets.setdefault(name, {})

    def needs(self, call: Call) -> Iterable[tuple[str, str]]:
        key = f"/{call['Key']}" if "Key" in call.parameters else ""
        yield f"s3:{call.operation}", f"arn:aws:s3:::{call['Bucket']}{key}"

    def put_object(self, call: Call) -> dict[str, Any]:
        """PutObject, without conditions."""
        if call.parameters.keys() & {"IfMatch", "IfNoneMatch"}:
            raise UnplayedError("the box puts objects without conditions")
        bucket, key = self._bucket(call), call["Key"]
        content = _content(call.parameters.get("Body", b""))
        if len(key.encode()) > limits.S3_KEY_BYTES_MAX:
            raise ApiError("KeyTooLongError", "Your key is too long")
        etag = f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'
        now = datetime.fromtimestamp(self.box.timeline.now // 1000, UTC)
        bucket[key] = Stored(content, etag, now)
        for tell in self.told:
            tell(call["Bucket"], key)
        return {"ETag": etag}

    def get_object(self, call: Call) -> dict[str, Any]:
        """GetObject; what is not there is 404 only to those who may list the bucket."""
        stored = self._stored(call)
        body = StreamingBody(io.BytesIO(stored.content), len(stored.content))
        size, changed_at = len(stored.content), stored.changed_at
        return {"Body": body, "ContentLength": size, "ETag": stored.etag, "LastModified": changed_at}

    def delete_object(self, call: Call) -> dict[str, Any]:
        """DeleteObject; what is not there is deleted, too."""
        self._bucket(call).pop(call["Key"], None)
        return {}

    def _bucket(self, call: Call) -> dict[str, Stored]:
        if call["Bucket"] not in self.buckets:
            raise ApiError("NoSuchBucket", "The specified bucket does not exist", status=404)
        return self.buckets[call["Bucket"]]

    def _stored(self, call: Call) -> Stored:
        found = self._bucket(call).get(call["Key"])
        if found is None:
            raise self._absent(call)
        return found

    def _absent(self, call: Call) -> ApiError:
        if self.box.allows(call.caller.role, "s3:ListBucket", f"arn:aws:s3:::{call['Bucket']}"):
            return ApiError("NoSuchKey", "The specified key does not exist.", {"Key": call["Key"]}, status=404)
        return ApiError("AccessDenied", "Access Denied", status=403)


def _content(body: Any) -> bytes:
    if isinstance(body, str):
        return body.encode()
    return bytes(body) if isinstance(body, bytes | bytearray) else bytes(body.read())
