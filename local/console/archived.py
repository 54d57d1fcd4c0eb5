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
EARLY = timedelta(minutes=5)
"""Firehose names an object by its oldest record. That record is at most this much older than the message."""
GZIP = b"\x1f\x8b"


def archived_message(s3: Any, bucket: str, topic: str, message_id: str) -> NewMessage | None:
    """Return a message as published; None if the archive does not have all of it.

    The topic may archive no bodies, or an erasure or the retention may have taken a part of the message.
    """
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
    """Yield the archive's objects of the hour of an instant, of the hour of :data:`EARLY` before, and the next hour."""
    hours = (accepted_at, accepted_at - EARLY, accepted_at + LATE)
    listed = [
        each["Key"]
        for prefix in dict.fromkeys(f"raw/messages/dt={hour:%Y-%m-%d}/hour={hour:%H}/" for hour in hours)
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        for each in page.get("Contents", ())
    ]
    for key in listed[:OBJECTS_READ_MAX]:
        content: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        yield gzip.decompress(content) if content.startswith(GZIP) else content


def _message(record: dict[str, Any]) -> NewMessage | None:
    """Return the message of a record; None if a part is missing.

    >>> _message({"body_base64": "aGk=", "body_is_text": True, "tags": ["a"]}).body
    'hi'
    """
    body: str | bytes | None = record.get("body")
    if (encoded := record.get("body_base64")) is not None:
        octets = base64.b64decode(encoded)
        body = octets.decode() if record.get("body_is_text") else octets
    if body is None or record.get("hashes"):
        return None
    others = json.loads(record.get("attributes") or "{}")
    return NewMessage.like({**record, **others}, body)
