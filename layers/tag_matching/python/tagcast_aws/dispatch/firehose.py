"""The archive on Firehose. One record has several JSON lines, compressed as a member of a gzip file.

In most regions a Firehose stream takes 1 MiB a second, in three regions 5 MiB. Firehose bills by size. The similar
lines of a batch deflate to an eighth or less (docs/speed-and-cost.md, Quotas). Concatenated members are a gzip file
(RFC 1952), so Firehose writes them unchanged.
"""

from __future__ import annotations

import gzip
import hashlib
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.archive.record import RecordKind

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_firehose.type_defs import RecordTypeDef

RECORD_BYTES_MAX = 900 * 1024
"""The maximum bytes of a record's lines. Firehose takes 1,000 KiB, and bills each record in steps of 5 KB.

The bytes are counted before compression, because some lines do not shrink.
"""
REQUEST_RECORDS_MAX = 4
"""Firehose takes at most 4 MiB in a request."""
DEFLATION = 1
"""zlib's fastest level: the default takes three times as long and saves a seventh more."""
AHEAD_MAX = 100_000
"""The maximum number of digests in :attr:`FirehoseArchive.ahead`, some 7 MB."""
ATTEMPTS_MAX = 5
PAUSE_S = 0.2


@dataclass(slots=True)
class RecordBatch:
    """Lines that share one Firehose record.

    *places* has one number for each line: the place of the line's change in the batch from the table's stream.
    """

    kind: RecordKind
    content: bytearray = field(default_factory=bytearray)
    places: list[int] = field(default_factory=list)

    def compress(self) -> bytes:
        """Return the lines as one member of a gzip file. Equal lines give equal bytes."""
        return gzip.compress(self.content, DEFLATION, mtime=0)


@dataclass(frozen=True, slots=True)
class FirehoseArchive:
    """Puts records into the Firehose stream of their kind.

    *streams* has the names of the streams. *bodies* are name patterns of topics; the bodies of their messages are
    archived.
    """

    client: FirehoseClient
    streams: Mapping[RecordKind, str]
    bodies: Sequence[str]
    logger: Logger
    sleep: Callable[[float], object] = time.sleep
    ahead: set[bytes] = field(default_factory=set)
    """Digests of lines that were accepted after a lost line. Their batch is retried, usually in this process."""

    def keeps_body(self, topic: str) -> bool:
        """Return whether the topic's message bodies are archived."""
        return any(fnmatchcase(topic, pattern) for pattern in self.bodies)

    def put(self, lines: Iterable[tuple[int, RecordKind, str]]) -> int | None:
        """Put the lines in order. Return the place of the first line that was not accepted; None if all were accepted.

        A line is a tuple like those of :func:`pack_records`. The caller must call again with all lines from the
        returned place on. The next call skips those of them that were already accepted.
        """
        taken: list[RecordBatch] = []
        left = pack_records(each for each in lines if not self.ahead or _digest(each[2].encode()) not in self.ahead)
        for kind, batches in left.items():
            while batches:
                some = batches[:REQUEST_RECORDS_MAX]
                refused = self._put(kind, some)
                taken += [each for each in some if each not in refused]
                batches[: len(some)] = refused
                if refused:
                    lost = min(each.places[0] for batches in left.values() for each in batches)
                    self._remember(taken, lost)
                    return lost
        return None

    def _remember(self, taken: Sequence[RecordBatch], lost: int) -> None:
        """Remember the accepted lines from the place *lost* on, because their batch is retried."""
        for batch in taken:
            texts = zip(batch.places, batch.content.removesuffix(b"\n").split(b"\n"), strict=True)
            self.ahead.update(_digest(text) for place, text in texts if place >= lost)
        if len(self.ahead) > AHEAD_MAX:
            self.ahead.clear()

    def _put(self, kind: RecordKind, batches: Sequence[RecordBatch]) -> Sequence[RecordBatch]:
        """Put *batches* with one request, and retry refused batches after a pause; return those still refused."""
        left: Sequence[tuple[RecordBatch, RecordTypeDef]] = [(each, {"Data": each.compress()}) for each in batches]
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                self.sleep(random.uniform(0.5, 1.0) * PAUSE_S * 2**attempt)
            left = self._put_once(kind, left)
            if not left:
                return ()
        self.logger.warning("Firehose did not accept the records", extra={"kind": kind.value, "batches": len(left)})
        return [batch for batch, _ in left]

    def _put_once(
        self, kind: RecordKind, batches: Sequence[tuple[RecordBatch, RecordTypeDef]]
    ) -> Sequence[tuple[RecordBatch, RecordTypeDef]]:
        """Put the batches once, each with its record; return refused batches."""
        records = [record for _, record in batches]
        try:
            answer = self.client.put_record_batch(DeliveryStreamName=self.streams[kind], Records=records)
        except (ClientError, BotoCoreError) as error:
            self.logger.warning("Firehose did not answer", extra={"error": type(error).__name__})
            return batches
        if not answer["FailedPutCount"]:
            return ()
        pairs = zip(batches, answer["RequestResponses"], strict=True)
        return [batch for batch, response in pairs if response.get("ErrorCode")]


def _digest(line: bytes | bytearray) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


def pack_records(lines: Iterable[tuple[int, RecordKind, str]]) -> dict[RecordKind, list[RecordBatch]]:
    """Pack lines into as few Firehose records as possible, by kind and in order.

    A line is a tuple: the place of its change in the batch from the table's stream, its kind, and its text.

    >>> packed = pack_records([(0, RecordKind.LANES, "{}"), (1, RecordKind.LANES, "{}")])
    >>> [(bytes(batch.content), batch.places) for batch in packed[RecordKind.LANES]]
    [(b'{}\\n{}\\n', [0, 1])]
    """
    packed: dict[RecordKind, list[RecordBatch]] = {}
    for place, kind, text in lines:
        line = f"{text}\n".encode()
        batches = packed.setdefault(kind, [])
        if not batches or len(batches[-1].content) + len(line) > RECORD_BYTES_MAX:
            batches.append(RecordBatch(kind))
        batches[-1].content += line
        batches[-1].places.append(place)
    return packed
