"""Streams of DynamoDB's tables: records in shards, each shard in the order of its changes."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from tests.aws import limits
from tests.aws.attributes import Attribute

Image = Mapping[str, Attribute]
Record = dict[str, Any]
FIRST_SEQUENCE = 100_000_000_000_000_000_000
TTL_IDENTITY = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
VIEW = "NEW_AND_OLD_IMAGES"


@dataclass
class Shard:
    """A part of the stream."""

    name: str
    records: list[Record] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    instants: list[int] = field(default_factory=list)


class Stream:
    """All shards of one table; changes of one partition key are in one shard."""

    def __init__(self, arn: str, region: str, shards: int = 1) -> None:
        self.arn = arn
        self._region = region
        self._sequence = FIRST_SEQUENCE
        self.told: list[Callable[[], None]] = []
        """Are told that there is a new record."""
        names = [f"shardId-{number:020d}-box" for number in range(shards)]
        self.shards = {name: Shard(name) for name in names}

    def append(self, now: int, pk: object, keys: Image, before: Image | None, after: Image | None, **more: Any) -> None:
        """Tell of one change; *more* are members of the record besides (who made the change)."""
        self._sequence += 1 + self._sequence % 7
        shard = list(self.shards.values())[crc32(str(pk).encode()) % len(self.shards)]
        change: dict[str, Any] = {
            "ApproximateCreationDateTime": now // 1000,
            "Keys": keys,
            "SequenceNumber": str(self._sequence),
            "StreamViewType": VIEW,
        }
        for name, image in (("NewImage", after), ("OldImage", before)):
            if image is not None:
                change[name] = image
        kind = "INSERT" if before is None else "REMOVE" if after is None else "MODIFY"
        shard.records.append(
            {
                "eventID": f"{self._sequence:032x}",
                "eventName": kind,
                "eventVersion": "1.1",
                "eventSource": "aws:dynamodb",
                "awsRegion": self._region,
                "dynamodb": change,
                **more,
            }
        )
        shard.sequences.append(self._sequence)
        shard.instants.append(now)
        for tell in self.told:
            tell()

    def read(self, shard: str, after: str | None, limit: int, now: int | None = None) -> list[Record]:
        """Records of a shard behind a sequence number (None: from the oldest kept), raw: bytes are bytes."""
        found = self.shards[shard]
        start = 0 if after is None else bisect_right(found.sequences, int(after))
        if now is not None:
            start = max(start, bisect_right(found.instants, now - 1000 * limits.STREAM_RETENTION_S - 1))
        return found.records[start : start + limit]

    def instant_of(self, shard: str, sequence: str) -> int:
        """When the change of a record happened, in milliseconds (the record itself tells seconds only)."""
        found = self.shards[shard]
        return found.instants[bisect_right(found.sequences, int(sequence)) - 1]

    def event_of(self, record: Record) -> Record:
        """The record as Lambda hands it to a function: with the stream's ARN, bytes as base64 text."""
        change = dict(record["dynamodb"])
        for name in ("Keys", "NewImage", "OldImage"):
            if name in change:
                change[name] = {key: _as_json(value) for key, value in change[name].items()}
        return {**record, "dynamodb": change, "eventSourceARN": self.arn}


def _as_json(value: Attribute) -> Attribute:
    ((kind, content),) = value.items()
    match kind:
        case "B":
            return {"B": base64.b64encode(content).decode()}
        case "L":
            return {"L": [_as_json(each) for each in content]}
        case "M":
            return {"M": {name: _as_json(each) for name, each in content.items()}}
    return value
