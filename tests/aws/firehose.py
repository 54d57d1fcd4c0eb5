"""Firehose: what was put into each delivery stream, in order."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.aws import limits
from tests.aws.box import ACCOUNT, REGION, Box, Call, Service
from tests.aws.faults import ApiError

BYTES, RECORDS = "firehose: bytes of a stream", "firehose: records of a stream"
REQUESTS = "firehose: requests of a stream"


class Firehose(Service):
    """All delivery streams, by name; each has the records that it took, at its quotas a second."""

    name = "firehose"
    throttled = ("ServiceUnavailableException", 503)
    failed = ("InternalFailure", 500)

    def __init__(self, box: Box) -> None:
        super().__init__(box)
        self.streams: dict[str, list[bytes]] = {}

    def create(self, name: str) -> list[bytes]:
        """Make a delivery stream."""
        return self.streams.setdefault(name, [])

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield what the archive's streams took, line by line, with the kind of record at the end of their names."""
        for name, records in self.streams.items():
            for record in records:
                for line in gzip.decompress(record).decode().splitlines():
                    yield name.rpartition("-")[2], line

    def needs(self, call: Call) -> Iterable[tuple[str, str]]:
        name = call["DeliveryStreamName"]
        yield f"firehose:{call.operation}", f"arn:aws:firehose:{REGION}:{ACCOUNT}:deliverystream/{name}"

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

    def _beyond_quota(self, call: Call, records: Sequence[Mapping[str, Any]]) -> Iterable[int]:
        """Yield the places of records for which the stream has nothing left in this second."""
        name = call["DeliveryStreamName"]
        for place, record in enumerate(records):
            if not self.box.quotas.take((BYTES, name, len(record["Data"])), (RECORDS, name, 1)):
                yield place

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
        if not self.box.quotas.take((REQUESTS, name, 1)):
            raise ApiError("ServiceUnavailableException", "Slow down.", status=503)
        if any(len(record["Data"]) > limits.FIREHOSE_RECORD_BYTES_MAX for record in records):
            raise ApiError("InvalidArgumentException", "A record is larger than 1000 KiB.")
        if sum(len(record["Data"]) for record in records) > limits.FIREHOSE_BATCH_BYTES_MAX:
            raise ApiError("InvalidArgumentException", "Records size exceeds 4 MB limit")
        return self.streams[name]

    def _take(self, stream: list[bytes], record: Mapping[str, Any]) -> str:
        data = record["Data"]
        stream.append(data.encode() if isinstance(data, str) else bytes(data))
        return f"{self.box.serial():032x}"
