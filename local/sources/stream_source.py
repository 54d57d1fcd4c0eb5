"""Invokes a function for the records of a table's stream, as Lambda's event source mapping does.

The source keeps the order and applies filters. It repeats a failed batch from the first failed record on. If the
mapping says so, it splits the batch into halves. After the last attempt, or when the records are too old, it gives up
and notifies the on-failure destination.
"""

import base64
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from local.engine.checksums import read_position, store_position
from local.engine.engine_calls import EngineCallError
from local.functions.quick_json import encode
from local.rules.limits import LAMBDA_PAYLOAD_BYTES_MAX
from local.sources.batch_result import Invoke, failed_items
from local.sources.event_pattern import matches

READ_MAX, MANY = 1000, 50
EVENT_FRAME = len('{"Records": []}')
EVENT_FIELDS = ("eventID", "eventName", "eventVersion", "eventSource", "awsRegion")
BACKOFF_S = (0.2, 10.0)

Record = dict[str, Any]


class EncodedRecord(NamedTuple):
    """A record and its JSON. The JSON is encoded only once, although it is measured and may be sent repeatedly."""

    record: Record
    text: bytes


Call = Callable[[str, dict[str, Any]], dict[str, Any]]
"""A function that calls an operation of the Streams API with a request, and returns the parsed response."""


@dataclass(frozen=True)
class StreamRules:
    """The settings of an event source mapping. The value -1 means that there is no limit.

    *attempts_max* is the number of retries of a batch. *bisect* says whether a failed batch is split into halves.
    If *window_s* is above 0, more records gather before an invocation. A record is passed on if it matches one of
    *filters*, or if there are no filters.
    """

    batch_size: int = 100
    attempts_max: int = -1
    age_max_s: int = -1
    bisect: bool = False
    window_s: float = 0.0
    filters: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, properties: Mapping[str, Any], filters: Sequence[Mapping[str, Any]]) -> "StreamRules":
        """Return the settings in the properties of an `AWS::Lambda::EventSourceMapping`."""
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
    """Reads a stream and invokes a function for its records. The stream must have one shard, as in the engine.

    The file *position* has the position at which reading continues. If it is None, reading begins at the start of the
    stream. *on_failure* gets a note about records that are given up. *stopped* returns whether to stop at once. If
    *urgent* returns True, the remaining records are read without pauses.
    """

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
    """Returns rows that are delivered before all stream records, as if the rows were just written."""
    stopped: Callable[[], bool] = lambda: False
    urgent: Callable[[], bool] = lambda: False
    _iterator: str | None = field(default=None, init=False)
    _last: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Load the stored position, or store the start, so that the engine keeps all records."""
        if self.position is not None:
            self.position.touch()
            self._last = read_position(self.position)

    def step(self) -> bool:
        """Read the available records and invoke the function for them. Return whether to read again without a pause.

        The result is False if few records were read. A pause then lets records gather, because an invocation costs the
        same for many records. If `urgent` returns True, the result is False only if no record was read.
        """
        if self.first is not None:
            self._hand_over([self._insertion(place, row) for place, row in enumerate(self.first())])
            self.first = None
        iterator, self._iterator = self._iterator or self._open(), None  # A failed call drops it: it may have expired.
        read = self.call("GetRecords", {"ShardIterator": iterator, "Limit": READ_MAX})
        records = [self.event_record(each) for each in read["Records"]]
        self._hand_over(records)
        self._iterator = read.get("NextShardIterator")
        if records and not self.stopped():  # Records left at the stop are read again.
            self._last = str(records[-1]["dynamodb"]["SequenceNumber"])
            if self.position is not None:
                store_position(self.position, self._last)
        return len(records) >= (1 if self.urgent() else READ_MAX if self.rules.window_s else MANY)

    def event_record(self, record: Mapping[str, Any]) -> Record:
        """Return a stream record as a record of Lambda's event."""
        event = {name: record[name] for name in EVENT_FIELDS}
        if record.get("userIdentity"):
            event["userIdentity"] = record["userIdentity"]
        return {**event, "dynamodb": record["dynamodb"], "eventSourceARN": self.stream_arn}

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
        return {**event, "dynamodb": change, "eventSourceARN": self.stream_arn}

    def _hand_over(self, records: list[Record]) -> None:
        encoded = (EncodedRecord(record, encode(record, _as_base64)) for record in records if self._admits(record))
        for batch in batches(encoded, self.rules.batch_size):
            self._finish(batch)

    def _open(self) -> str:
        described = self.call("DescribeStream", {"StreamArn": self.stream_arn})
        shard = described["StreamDescription"]["Shards"][-1]["ShardId"]
        request = {"StreamArn": self.stream_arn, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
        if self._last:
            after = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": self._last}
            # The record at the position may be dropped, as all readers have read it. Then the oldest is next.
            with suppress(EngineCallError):
                return str(self.call("GetShardIterator", request | after)["ShardIterator"])
        return str(self.call("GetShardIterator", request)["ShardIterator"])

    def _admits(self, record: Record) -> bool:
        return not self.rules.filters or any(matches(pattern, record) for pattern in self.rules.filters)

    def _finish(self, records: list[EncodedRecord]) -> None:
        """Invoke until every record is done or given up. Later records wait, so the shard's order is kept."""
        pending = [records]
        attempts = 0
        while pending and not self.stopped():
            batch = pending.pop(0)
            rest = self._attempt(batch)
            if not rest:
                attempts = 0
                continue
            if len(rest) < len(batch):
                attempts = 0  # It progressed: records before the first failure are done.
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

    def _attempt(self, batch: list[EncodedRecord]) -> list[EncodedRecord]:
        """Invoke once. Return the first failed record and all after it; an empty list if none failed."""
        numbers = [record["dynamodb"]["SequenceNumber"] for record, _ in batch]
        invocation = self.invoke(self.function, b'{"Records": [%b]}' % b", ".join(text for _, text in batch))
        failed = failed_items(invocation, numbers)
        first = min((numbers.index(each) for each in failed), default=len(batch))
        return batch[first:]

    def _too_old(self, records: list[EncodedRecord]) -> bool:
        made_at = records[0].record["dynamodb"].get("ApproximateCreationDateTime")
        return self.rules.age_max_s >= 0 and made_at is not None and self.clock() - made_at > self.rules.age_max_s

    def _obituary(self, records: list[EncodedRecord], attempts: int, too_old: bool) -> dict[str, Any]:
        """Return Lambda's note about abandoned records. Only a bucket as destination gets the payload."""
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


def batches(records: Iterable[EncodedRecord], count_max: int) -> Iterator[list[EncodedRecord]]:
    """Split records into batches of at most *count_max* records. No batch exceeds the size limit of an event.

    >>> list(map(len, batches([EncodedRecord({}, b"x" * 4_000_000)] * 2 + [EncodedRecord({}, b"{}")] * 3, 3)))
    [1, 3, 1]
    """
    batch: list[EncodedRecord] = []
    size = EVENT_FRAME
    for record in records:
        record_size = len(record.text) + 2
        if batch and (len(batch) == count_max or size + record_size > LAMBDA_PAYLOAD_BYTES_MAX):
            yield batch
            batch, size = [], EVENT_FRAME
        batch.append(record)
        size += record_size
    if batch:
        yield batch


def _as_base64(binary: bytes) -> str:
    return base64.b64encode(binary).decode()
