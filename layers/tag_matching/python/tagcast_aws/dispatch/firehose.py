"""The archive's way out: records as lines of JSON, several to a record of Firehose."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.archive.record import RecordKind

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_firehose.type_defs import RecordTypeDef

PARCEL_BYTES_MAX = 900 * 1024
"""Firehose takes 1,000 KiB and bills each record in steps of 5 KB, so lines travel together."""
REQUEST_PARCELS_MAX = 4
"""A request takes 4 MiB."""
ATTEMPTS_MAX = 5
PAUSE_S = 0.2


@dataclass(slots=True)
class Parcel:
    """Lines that travel as one record of Firehose; *places* are those of the changes that they tell of."""

    kind: RecordKind
    content: bytearray = field(default_factory=bytearray)
    places: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FirehoseArchive:
    """Puts records into the delivery stream of their kind; *bodies* are patterns of topics that keep theirs."""

    client: FirehoseClient
    streams: Mapping[RecordKind, str]
    bodies: Sequence[str]
    logger: Logger
    sleep: Callable[[float], object] = time.sleep

    def keeps_body(self, topic: str) -> bool:
        """Say whether the bodies of the topic's messages are archived."""
        return any(fnmatchcase(topic, pattern) for pattern in self.bodies)

    def put(self, lines: Iterable[tuple[int, RecordKind, str]]) -> int | None:
        """Put every line; return the first place of which something was not taken, or None."""
        lost: list[int] = []
        for kind, parcels in parcels_of(lines).items():
            for start in range(0, len(parcels), REQUEST_PARCELS_MAX):
                for parcel in self._put(kind, parcels[start : start + REQUEST_PARCELS_MAX]):
                    lost += parcel.places
        return min(lost, default=None)

    def _put(self, kind: RecordKind, parcels: Sequence[Parcel]) -> Sequence[Parcel]:
        """Put the parcels of one request, those that were refused again after a pause; return what remains."""
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                self.sleep(random.uniform(0.5, 1.0) * PAUSE_S * 2**attempt)
            parcels = self._refused(kind, parcels)
            if not parcels:
                return ()
        self.logger.warning("the archive was not taken", extra={"kind": kind.value, "parcels": len(parcels)})
        return parcels

    def _refused(self, kind: RecordKind, parcels: Sequence[Parcel]) -> Sequence[Parcel]:
        records: list[RecordTypeDef] = [{"Data": bytes(parcel.content)} for parcel in parcels]
        try:
            answer = self.client.put_record_batch(DeliveryStreamName=self.streams[kind], Records=records)
        except (ClientError, BotoCoreError) as error:
            self.logger.warning("the archive did not answer", extra={"error": type(error).__name__})
            return parcels
        if not answer["FailedPutCount"]:
            return ()
        pairs = zip(parcels, answer["RequestResponses"], strict=True)
        return [parcel for parcel, response in pairs if response.get("ErrorCode")]


def parcels_of(lines: Iterable[tuple[int, RecordKind, str]]) -> dict[RecordKind, list[Parcel]]:
    """Pack lines by kind, in their order, into as few parcels as fit.

    >>> packed = parcels_of([(0, RecordKind.LANES, "{}"), (1, RecordKind.LANES, "{}")])
    >>> [(bytes(parcel.content), parcel.places) for parcel in packed[RecordKind.LANES]]
    [(b'{}\\n{}\\n', [0, 1])]
    """
    packed: dict[RecordKind, list[Parcel]] = {}
    for place, kind, line in _encoded(lines):
        parcels = packed.setdefault(kind, [])
        if not parcels or len(parcels[-1].content) + len(line) > PARCEL_BYTES_MAX:
            parcels.append(Parcel(kind))
        parcels[-1].content += line
        parcels[-1].places.append(place)
    return packed


def _encoded(lines: Iterable[tuple[int, RecordKind, str]]) -> Iterator[tuple[int, RecordKind, bytes]]:
    for place, kind, line in lines:
        yield place, kind, f"{line}\n".encode()
