"""Reads one message from the archive, without Spark. The archive still has the body after the last delivery."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tagcast.ids import accepted_at_of
from tagcast_client import NewMessage

OBJECTS_READ_MAX = 400
LATE = timedelta(hours=1)
"""The maximum time from the acceptance of a message until the archive has the message."""
GZIP = b"\x1f\x8b"


def archived_message(s3: Any, bucket: str, topic: str, message_id: str) -> NewMessage | None:
    """Return a message as published; None if the archive does not have it, or the topic archives no bodies."""
    for content in _objects(s3, bucket, datetime.fromtimestamp(accepted_at_of(message_id) / 1000, UTC)):
        if message_id.encode() not in content:
            continue
        for line in content.splitlines():
            if message_id.encode() in line:
                record = json.loads(line)
                if record.get("topic") == topic and record.get("message_id") == message_id:
                    return _message(record)
    return None


def _objects(s3: Any, bucket: str, accepted_at: datetime) -> Iterator[bytes]:
    """Yield the archive's objects of the hour of an instant, and of the next hour."""
    listed = [
        each["Key"]
        for hour in (accepted_at, accepted_at + LATE)
        for page in s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"raw/messages/dt={hour:%Y-%m-%d}/hour={hour:%H}/"
        )
        for each in page.get("Contents", ())
    ]
    for key in listed[:OBJECTS_READ_MAX]:
        content: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        yield gzip.decompress(content) if content.startswith(GZIP) else content


def _message(record: dict[str, Any]) -> NewMessage | None:
    """Return the message of a record.

    >>> _message({"body_base64": "aGk=", "body_is_text": True, "tags": ["a"]}).body
    'hi'
    """
    body: str | bytes | None = record.get("body")
    if (encoded := record.get("body_base64")) is not None:
        octets = base64.b64decode(encoded)
        body = octets.decode() if record.get("body_is_text") else octets
    if body is None:
        return None
    others = json.loads(record.get("attributes") or "{}")
    return NewMessage.like({**record, **others}, body)
