"""Plays Lambda's event source mapping of a table's stream.

In order; filters; a failed batch is repeated from its first failure, halved if so declared, and given up
after the last attempt or when its records are too old, with a note to the on-failure destination.
"""

import base64
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from local.engine.engine_calls import EngineCallError
from local.engine.positions import reach, reached
from local.functions.quick_json import encoded
from local.rules.limits import LAMBDA_PAYLOAD_BYTES_MAX
from local.sources.batch_result import Invoke, failed_items
from local.sources.event_pattern import matches

READ_MAX, MANY = 1000, 50
EVENT_FRAME = len('{"Records": []}')
EVENT_FIELDS = ("eventID", "eventName", "eventVersion", "eventSource", "awsRegion")
BACKOFF_S = (0.2, 10.0)

Record = dict[str, Any]


class Told(NamedTuple):
    """A record, and as the JSON in which it travels: it is measured, sent and perhaps sent again."""

    record: Record
    text: bytes


Call = Callable[[str, dict[str, Any]], dict[str, Any]]
"""An operation of the Streams API and its request, to its answer as JSON."""


@dataclass(frozen=True)
class StreamRules:
    """What the template says about the mapping; -1 = no bound."""

    batch_size: int = 100
    attempts_max: int = -1
    age_max_s: int = -1
    bisect: bool = False
    window_s: float = 0.0
    filters: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, properties: Mapping[str, Any], filters: Sequence[Mapping[str, Any]]) -> "StreamRules":
        """Read the properties of an `AWS::Lambda::EventSourceMapping`."""
        return cls(
            batch_size=int(properties.get("BatchSize", 100)),
            attempts_max=int(properties.get("MaximumRetryAttempts", -1)),
            age_max_s=int(properties.get("MaximumRecordAgeInSeconds", -1)),
            bisect=bool(properties.get("BisectBatchOnFunctionError", False)),
            window_s=float(properties.get("MaximumBatchingWindowInSeconds", 0)),
            filters=filters,
        )


@dataclass
class StreamSource:
    """Reads one stream of one shard (the engine has no more), from where *position* says that it was, or its start."""

    call: Call
    stream_arn: str
    function: str
    invoke: Invoke
    rules: StreamRules
    on_failure: Callable[[dict[str, Any]], None]
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], object] = time.sleep
    position: Path | None = None
    first: Callable[[], Iterable[Mapping[str, Any]]] | None = None
    """Answers the rows that are told before all others, as if they had just been written."""
    stopped: Callable[[], bool] = lambda: False
    urgent: Callable[[], bool] = lambda: False
    _iterator: str | None = field(default=None, init=False)
    _last: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Know how far an earlier process was; who has not read anything says that, too, so that all is kept for it."""
        if self.position is not None:
            self.position.touch()
            self._last = reached(self.position)

    def step(self) -> bool:
        """Handle what the stream has; answers whether there may be more to handle at once.

        What is little waits for company, unless it is `urgent`: an invocation costs as much for one record as for many.
        """
        if self.first is not None:
            self._hand_over([self._insertion(place, row) for place, row in enumerate(self.first())])
            self.first = None
        read = self.call("GetRecords", {"ShardIterator": self._iterator or self._open(), "Limit": READ_MAX})
        records = [self.event_record(each) for each in read["Records"]]
        self._hand_over(records)
        self._iterator = read.get("NextShardIterator")
        if records and not self.stopped():  # What it leaves when it is stopped comes again.
            self._reached(records[-1]["dynamodb"]["SequenceNumber"])
        return len(records) >= (1 if self.urgent() else READ_MAX if self.rules.window_s else MANY)

    def event_record(self, record: Mapping[str, Any]) -> Record:
        """A record of the Streams API in the shape in which Lambda hands it to a function: binaries stay Base64."""
        event = {name: record[name] for name in EVENT_FIELDS}
        if record.get("userIdentity"):
            event["userIdentity"] = record["userIdentity"]
        return {**event, "dynamodb": record["dynamodb"], "eventSourceARN": self.stream_arn}

    def _reached(self, number: str) -> None:
        self._last = number
        if self.position is not None:
            reach(self.position, number)

    def _insertion(self, place: int, row: Mapping[str, Any]) -> Record:
        change = {
            "ApproximateCreationDateTime": self.clock(),
            "Keys": {"pk": row["pk"], "sk": row["sk"]},
            "NewImage": row,
            "SequenceNumber": f"{place:021d}",
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        }
        event = {"eventID": f"{place:032x}", "eventName": "INSERT", "eventVersion": "1.1"}
        event |= {"eventSource": "aws:dynamodb", "awsRegion": self.stream_arn.split(":")[3]}
        return {**event, "dynamodb": _as_json(change), "eventSourceARN": self.stream_arn}

    def _hand_over(self, records: list[Record]) -> None:
        told = (Told(record, encoded(record)) for record in records if self._admits(record))
        for batch in batches(told, self.rules.batch_size):
            self._finish(batch)

    def _open(self) -> str:
        described = self.call("DescribeStream", {"StreamArn": self.stream_arn})
        shard = described["StreamDescription"]["Shards"][-1]["ShardId"]
        request = {"StreamArn": self.stream_arn, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
        if self._last:
            after = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": self._last}
            # Its last record is forgotten if all have read it; then the oldest is the next.
            with suppress(EngineCallError):
                return str(self.call("GetShardIterator", request | after)["ShardIterator"])
        return str(self.call("GetShardIterator", request)["ShardIterator"])

    def _admits(self, record: Record) -> bool:
        return not self.rules.filters or any(matches(pattern, record) for pattern in self.rules.filters)

    def _finish(self, records: list[Told]) -> None:
        """Invoke until every record is done or given up; later records wait (the shard's order)."""
        pending = [records]
        attempts = 0
        while pending and not self.stopped():
            batch = pending.pop(0)
            rest = self._attempt(batch)
            if not rest:
                attempts = 0
                continue
            if len(rest) < len(batch):
                attempts = 0  # It moved on: what is before the first failure is done.
            attempts += 1
            too_old = self._too_old(rest)
            if too_old or 0 <= self.rules.attempts_max < attempts:
                self.on_failure(self._obituary(rest, attempts, too_old))
                attempts = 0
                continue
            if self.rules.bisect and len(rest) > 1:
                middle = len(rest) // 2
                pending[:0] = [rest[:middle], rest[middle:]]
            else:
                pending.insert(0, rest)
            self.sleep(min(BACKOFF_S[1], BACKOFF_S[0] * 2 ** min(attempts, 10)))

    def _attempt(self, batch: list[Told]) -> list[Told]:
        """Invoke once; answers the first failed record and all after it."""
        numbers = [record["dynamodb"]["SequenceNumber"] for record, _ in batch]
        invocation = self.invoke(self.function, b'{"Records": [%b]}' % b", ".join(text for _, text in batch))
        failed = failed_items(invocation, numbers)
        first = min((numbers.index(each) for each in failed), default=len(batch))
        return batch[first:]

    def _too_old(self, records: list[Told]) -> bool:
        made_at = records[0].record["dynamodb"].get("ApproximateCreationDateTime")
        return self.rules.age_max_s >= 0 and made_at is not None and self.clock() - made_at > self.rules.age_max_s

    def _obituary(self, records: list[Told], attempts: int, too_old: bool) -> dict[str, Any]:
        """What Lambda says of records that it gives up; the payload is for a bucket alone."""
        return {
            "requestContext": {
                "condition": "RecordAgeExceeded" if too_old else "RetryAttemptsExhausted",
                "functionArn": self.function,
                "approximateInvokeCount": attempts,
            },
            "DDBStreamBatchInfo": {
                "startSequenceNumber": records[0].record["dynamodb"]["SequenceNumber"],
                "endSequenceNumber": records[-1].record["dynamodb"]["SequenceNumber"],
                "batchSize": len(records),
                "streamArn": self.stream_arn,
            },
            "payload": (b'{"Records": [%b]}' % b", ".join(text for _, text in records)).decode(),
        }


def batches(records: Iterable[Told], count_max: int) -> Iterator[list[Told]]:
    """Cut what was read into batches of at most *count_max* records, with no more bytes than a function takes.

    >>> list(map(len, batches([Told({}, b"x" * 4_000_000)] * 2 + [Told({}, b"{}")] * 3, 3)))
    [1, 3, 1]
    """
    batch: list[Told] = []
    size = EVENT_FRAME
    for told in records:
        record_size = len(told.text) + 2
        if batch and (len(batch) == count_max or size + record_size > LAMBDA_PAYLOAD_BYTES_MAX):
            yield batch
            batch, size = [], EVENT_FRAME
        batch.append(told)
        size += record_size
    if batch:
        yield batch


def _as_json(value: Any) -> Any:
    """Binary attributes as Base64 text, as in the events of Lambda (boto3 has decoded them)."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    return value
