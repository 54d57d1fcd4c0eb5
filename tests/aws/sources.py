"""Event source mappings of streams: each shard in order, filtered, halved, tried again, given up with a note."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from botocore.exceptions import BotoCoreError, ClientError

from local.sources.event_pattern import matches
from local.sources.stream_source import StreamRules
from local.template.intrinsics import Resolver
from local.template.translated import SourceSpec
from tests.aws import limits
from tests.aws.box import Box
from tests.aws.calls import Caller
from tests.aws.lambdas import Ended, Function, Functions
from tests.aws.streams import Record, Stream
from tests.aws.timeline import Timeline

READ_MAX = 10_000
PARALLEL = "ParallelizationFactor"


class StreamSource:
    """One mapping of one stream to one function."""

    def __init__(
        self, box: Box, timeline: Timeline, stack: Resolver, functions: Functions, spec: SourceSpec, stream: Stream
    ) -> None:
        properties = stack.value(dict(spec.properties))
        assert PARALLEL not in properties, "a factor of parallelization is not played"
        self.rules = StreamRules.of(properties, spec.filters)
        self.function: Function = functions.by_id[spec.function]
        self.stream, self.functions, self.timeline = stream, functions, timeline
        self.chance = Random(f"source {spec.logical_id} {box.chance.random()}")
        self.unsaid = box.unsaid
        self.rewinds: Callable[[], int] = lambda: 0
        """Says by how many records the mapping goes back before its next batch."""
        destination = properties.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
        self._notes = None if destination is None else str(destination)
        caller = Caller(spec.function, f"source {spec.logical_id}")
        self._sqs, self._s3 = box.client("sqs", caller), box.client("s3", caller)
        self.source_id = spec.logical_id
        self._shards: dict[str, _Reader] = {}

    @property
    def is_idle(self) -> bool:
        """Say whether nothing waits in any shard."""
        return not any(reader.busy for reader in self._shards.values())

    def told(self) -> None:
        """Hear that the stream grew."""
        for name in self.stream.shards:
            if name not in self._shards:
                self._shards[name] = _Reader(self, name)
            self._shards[name].wake()

    def admits(self, record: Record) -> bool:
        """Say whether a filter lets the record through."""
        return not self.rules.filters or any(matches(pattern, record) for pattern in self.rules.filters)

    def note_failure(self, shard: str, records: list[Record], tries: int, condition: str) -> None:
        """Tell the on-failure destination of records that are given up; a bucket is given them, too."""
        if self._notes is None:
            return
        note = {
            "requestContext": {
                "requestId": "",
                "functionArn": self.function.arn,
                "condition": condition,
                "approximateInvokeCount": tries,
            },
            "version": "1.0",
            "DDBStreamBatchInfo": {
                "shardId": shard,
                "startSequenceNumber": records[0]["dynamodb"]["SequenceNumber"],
                "endSequenceNumber": records[-1]["dynamodb"]["SequenceNumber"],
                "batchSize": len(records),
                "streamArn": self.stream.arn,
            },
        }
        name = self._notes.rpartition(":")[2]
        try:
            if self._notes.startswith("arn:aws:s3:"):
                # lambda/latest/dg/services-dynamodb-errors.html
                key = f"aws/lambda/{self.source_id}/{shard}/{records[0]['dynamodb']['SequenceNumber']}"
                kept = {**note, "payload": json.dumps({"Records": records})}
                self._s3.put_object(Bucket=name, Key=key, Body=json.dumps(kept).encode())
            else:
                url = f"https://sqs.us-east-1.amazonaws.com/123456789012/{name}"
                self._sqs.send_message(QueueUrl=url, MessageBody=json.dumps(note))
        except (BotoCoreError, ClientError) as fault:
            if isinstance(fault, ClientError) and "AccessDenied" in fault.response["Error"]["Code"]:
                raise
            self.timeline.after(
                self.unsaid.longest_pause_ms, lambda: self.note_failure(shard, records, tries, condition)
            )


class _Reader:
    """One shard: one batch at a time."""

    def __init__(self, source: StreamSource, shard: str) -> None:
        self._source, self._shard = source, shard
        self._after: str | None = None
        self._pending: list[tuple[list[Record], int]] = []
        """Batches that are to be tried, each with the number of its failures."""
        self.busy = False

    def wake(self) -> None:
        if not self.busy:
            self.busy = True
            wait_ms = self._source.chance.uniform(*limits.STREAM_SOURCE_MS) + 1000 * self._source.rules.window_s
            self._source.timeline.after(wait_ms, self._read)

    def _read(self) -> None:
        source = self._source
        back = source.rewinds()
        if back:
            passed = source.stream.read(self._shard, None, 10**9)
            kept = [record for record in passed if self._after and _number(record) <= int(self._after)]
            self._after = kept[-back - 1]["dynamodb"]["SequenceNumber"] if len(kept) > back else None
        now = source.timeline.now
        found = source.stream.read(self._shard, self._after, source.rules.batch_size, now)
        if not found:
            self.busy = False
            return
        self._after = found[-1]["dynamodb"]["SequenceNumber"]
        events = [source.stream.event_of(record) for record in found]
        admitted = [event for event in events if source.admits(event)]
        if not admitted:
            source.timeline.after(0, self._read)
            return
        self._pending = [(admitted, 0)]
        self._try()

    def _try(self) -> None:
        if not self._pending:
            self._source.timeline.after(self._source.chance.uniform(0, 100), self._read)
            return
        batch, failures = self._pending[0]
        label = f"{len(batch)} records of {self._shard[-8:]}"
        self._source.functions.start(
            self._source.function,
            {"Records": batch},
            lambda ended: self._ended(batch, failures, ended),
            label=label,
        )

    def _ended(self, batch: list[Record], failures: int, ended: Ended) -> None:
        source, rules = self._source, self._source.rules
        first = _first_failed(batch, ended)
        del self._pending[0]
        if first is None:
            self._try()
            return
        rest = batch[first:]
        tries = (0 if first else failures) + 1
        age_ms = source.timeline.now - source.stream.instant_of(self._shard, rest[0]["dynamodb"]["SequenceNumber"])
        too_old = rules.age_max_s >= 0 and age_ms > 1000 * rules.age_max_s
        refused = ended.error == "TooManyRequestsException"
        if refused and not too_old:
            self._pending.insert(0, (rest, failures))
        elif too_old or 0 <= rules.attempts_max < tries:
            source.note_failure(self._shard, rest, tries, "RecordAgeExceeded" if too_old else "RetryAttemptsExhausted")
        elif rules.bisect and len(rest) > 1 and first == 0:
            middle = len(rest) // 2
            # Halves do not use up attempts (lambda/latest/dg/services-dynamodb-errors.html).
            self._pending[:0] = [(rest[:middle], failures), (rest[middle:], failures)]
        else:
            self._pending.insert(0, (rest, tries))
        source.timeline.after(source.chance.uniform(0.5, 1) * source.unsaid.pause_ms(tries), self._try)


def _number(record: Record) -> int:
    return int(record["dynamodb"]["SequenceNumber"])


def _first_failed(batch: list[Record], ended: Ended) -> int | None:
    """Return the place of the first record that is not done: an answer may name any of them."""
    if ended.error is not None:
        return 0
    failures = (ended.answer or {}).get("batchItemFailures") or []
    numbers = [record["dynamodb"]["SequenceNumber"] for record in batch]
    named = [failure.get("itemIdentifier") for failure in failures]
    if any(name not in numbers for name in named):
        return 0
    return min((numbers.index(name) for name in named), default=None)
