"""Lambda's event sources as plain loops: what a queue or a stream has becomes one event of a function."""

import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from local.sources.event_pattern import matches
from tests.aws.stack import REGION

Function = Callable[[Any], Any]
Record = dict[str, Any]


class QueueSource:
    """Takes ten messages, invokes, and deletes those that the function did not report."""

    def __init__(self, client: Any, url: str, arn: str, invoke: Function) -> None:
        self._client, self._url, self._arn, self._invoke = client, url, arn, invoke

    def step(self) -> None:
        received = self._client.receive_message(
            QueueUrl=self._url, MaxNumberOfMessages=10, WaitTimeSeconds=0, MessageSystemAttributeNames=["All"]
        ).get("Messages", [])
        if not received:
            return
        answer = self._invoke({"Records": [self._record(message) for message in received]})
        failed = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
        done = [message for message in received if message["MessageId"] not in failed]
        entries = [{"Id": str(place), "ReceiptHandle": each["ReceiptHandle"]} for place, each in enumerate(done)]
        if entries:
            self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)

    def _record(self, message: Mapping[str, Any]) -> Record:
        return {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": {},
            "md5OfBody": message["MD5OfBody"],
            "eventSource": "aws:sqs",
            "eventSourceARN": self._arn,
            "awsRegion": REGION,
        }


class Changes(Protocol):
    """What a table's stream tells since the last time, bytes as they are."""

    def read(self) -> Sequence[Record]: ...


class StreamSource:
    """Hands over what its filters let through, again from the first record that the function reports."""

    def __init__(
        self, changes: Changes, invoke: Function, filters: Sequence[Mapping[str, Any]], batch_size: int
    ) -> None:
        self._changes, self._invoke, self._filters, self._size = changes, invoke, filters, int(batch_size)
        self._left: list[Record] = []

    def step(self) -> None:
        read: list[Record] = [_as_json(record) for record in self._changes.read()]
        self._left += [record for record in read if any(matches(pattern, record) for pattern in self._filters)]
        while self._left:
            batch = self._left[: self._size]
            failed = {each["itemIdentifier"] for each in self._invoke({"Records": batch})["batchItemFailures"]}
            numbers = [record["dynamodb"]["SequenceNumber"] for record in batch]
            first = min((numbers.index(each) for each in failed), default=len(batch))
            del self._left[:first]
            if failed:
                return


class StreamedChanges:
    """The changes as the implementation's own stream tells them."""

    def __init__(self, make_client: Callable[..., Any], table: str) -> None:
        self._client = make_client("dynamodbstreams")
        self._arn = make_client("dynamodb").describe_table(TableName=table)["Table"]["LatestStreamArn"]
        self._iterators: dict[str, str | None] = {}

    def read(self) -> Sequence[Record]:
        described = self._client.describe_stream(StreamArn=self._arn)["StreamDescription"]
        found: list[Record] = []
        for shard in described["Shards"]:
            name = shard["ShardId"]
            if name not in self._iterators:
                asked = {"StreamArn": self._arn, "ShardId": name, "ShardIteratorType": "TRIM_HORIZON"}
                self._iterators[name] = self._client.get_shard_iterator(**asked)["ShardIterator"]
            if (iterator := self._iterators[name]) is not None:
                answer = self._client.get_records(ShardIterator=iterator)
                found += answer["Records"]
                self._iterators[name] = answer.get("NextShardIterator")
        return found


class ScannedChanges:
    """The changes since the table was read last, for an implementation without streams: of several, the last."""

    def __init__(self, make_client: Callable[..., Any], table: str) -> None:
        self._client, self._table = make_client("dynamodb"), table
        self._known: dict[tuple[str, str], Record] = {}
        self._number = 0

    def read(self) -> Sequence[Record]:
        now = {(row["pk"]["S"], row["sk"]["S"]): row for row in self._rows()}
        before, self._known = self._known, now
        changed = (key for key in dict.fromkeys((*before, *now)) if before.get(key) != now.get(key))
        return [self._record(before.get(key), now.get(key)) for key in changed]

    def _rows(self) -> Iterator[Record]:
        for page in self._client.get_paginator("scan").paginate(TableName=self._table, ConsistentRead=True):
            yield from page["Items"]

    def _record(self, old: Record | None, new: Record | None) -> Record:
        self._number += 1
        images = {name: image for name, image in (("OldImage", old), ("NewImage", new)) if image is not None}
        row = new or old or {}
        return {
            "eventID": f"{self._number:032x}",
            "eventName": "MODIFY" if len(images) == 2 else "INSERT" if new else "REMOVE",
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "awsRegion": REGION,
            "dynamodb": {
                "ApproximateCreationDateTime": time.time(),
                "Keys": {"pk": row["pk"], "sk": row["sk"]},
                "SequenceNumber": f"{self._number:021d}",
                "StreamViewType": "NEW_AND_OLD_IMAGES",
                **images,
            },
        }


def _as_json(part: Any) -> Any:
    """Return a part of a record as an event has it: bytes as base64 text, instants in seconds."""
    if isinstance(part, bytes):
        return b64encode(part).decode()
    if isinstance(part, datetime):
        return part.timestamp()
    if isinstance(part, dict):
        return {name: _as_json(each) for name, each in part.items()}
    return [_as_json(each) for each in part] if isinstance(part, list) else part
