"""Firehose: what was put into each delivery stream, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from local.rules import limits
from tests.aws.box import ACCOUNT, REGION, Box, Call, Service
from tests.aws.faults import ApiError
from tests.aws.throughput import Bucket


class Firehose(Service):
    """All delivery streams, by name; each has the records that it took, at its quotas a second."""

    name = "firehose"
    throttled = ("ServiceUnavailableException", 503)
    failed = ("InternalFailure", 500)

    def __init__(self, box: Box) -> None:
        super().__init__(box)
        self.streams: dict[str, list[bytes]] = {}
        self.bytes_per_s = limits.FIREHOSE_STREAM_BYTES_LARGE
        self.records_per_s = limits.FIREHOSE_STREAM_RECORDS_LARGE
        self.requests_per_s = limits.FIREHOSE_STREAM_REQUESTS_LARGE
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def create(self, name: str) -> list[bytes]:
        """Make a delivery stream."""
        return self.streams.setdefault(name, [])

    def needs(self, call: Call) -> Iterable[tuple[str, str]]:
        name = call["DeliveryStreamName"]
        yield f"firehose:{call.operation}", f"arn:aws:firehose:{REGION}:{ACCOUNT}:deliverystream/{name}"

    def put_record(self, call: Call) -> dict[str, Any]:
        """PutRecord."""
        stream = self._stream(call, [call["Record"]])
        return {"Encrypted": True, "RecordId": self._take(stream, call["Record"])}

    def put_record_batch(self, call: Call) -> dict[str, Any]:
        """PutRecordBatch: records are taken or refused each on its own, and the answer is in their order."""
        records = call["Records"]
        stream = self._stream(call, records)
        spoiled = {*self.box.accidents.spoiled(call, len(records)), *self._beyond_quota(call, records)}
        answers = [
            {"ErrorCode": "ServiceUnavailableException", "ErrorMessage": "Slow down."}
            if place in spoiled
            else {"RecordId": self._take(stream, record)}
            for place, record in enumerate(records)
        ]
        return {"FailedPutCount": len(spoiled), "Encrypted": True, "RequestResponses": answers}

    def forget(self) -> None:
        """Begin to count anew."""
        for bucket in self._buckets.values():
            bucket.taken = 0.0

    def taken_s(self) -> float:
        """Return for how many seconds the stream that took most was due to be, at least."""
        return max((bucket.taken / bucket.rate for bucket in self._buckets.values()), default=0.0)

    def _bucket(self, stream: str, what: str, rate: float) -> Bucket:
        bucket = self._buckets.setdefault((stream, what), Bucket(rate))
        bucket.rate = rate
        return bucket

    def _beyond_quota(self, call: Call, records: Sequence[Mapping[str, Any]]) -> Iterable[int]:
        """Yield the places of records for which the stream has nothing left in this second."""
        name, now = call["DeliveryStreamName"], self.box.timeline.now
        size, count = self._bucket(name, "bytes", self.bytes_per_s), self._bucket(name, "records", self.records_per_s)
        for place, record in enumerate(records):
            if size.left(now) < len(record["Data"]) or count.left(now) < 1:
                yield place
            else:
                size.take(len(record["Data"]))
                count.take(1)

    def _stream(self, call: Call, records: Sequence[Mapping[str, Any]]) -> list[bytes]:
        name = call["DeliveryStreamName"]
        if len(records) > limits.FIREHOSE_BATCH_MAX:
            raise ApiError(
                "ValidationException",
                "1 validation error detected: Value at 'records' failed to satisfy constraint: Member must have length "
                f"less than or equal to {limits.FIREHOSE_BATCH_MAX}",
            )
        if name not in self.streams:
            raise ApiError("ResourceNotFoundException", f"Firehose {name} under account {ACCOUNT} not found.")
        requests = self._bucket(name, "requests", self.requests_per_s)
        if requests.left(self.box.timeline.now) < 1:
            raise ApiError("ServiceUnavailableException", "Slow down.", status=503)
        requests.take(1)
        if any(len(record["Data"]) > limits.FIREHOSE_RECORD_BYTES_MAX for record in records):
            raise ApiError("InvalidArgumentException", "A record is larger than 1000 KiB.")
        if sum(len(record["Data"]) for record in records) > limits.FIREHOSE_BATCH_BYTES_MAX:
            raise ApiError("InvalidArgumentException", "Records size exceeds 4 MB limit")
        return self.streams[name]

    def _take(self, stream: list[bytes], record: Mapping[str, Any]) -> str:
        data = record["Data"]
        stream.append(data.encode() if isinstance(data, str) else bytes(data))
        return f"{self.box.serial():032x}"
