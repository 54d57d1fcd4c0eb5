"""Consumes the streams of both tables: writes archive records and the tails of watched topics, and publishes events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tagcast.archive.change_records import records_of
from tagcast.archive.record import Record
from tagcast.errors import UNREADABLE
from tagcast_aws import wiring
from tagcast_aws.store.stream import change_of

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext
    from tagcast.archive.events import EventPublisher
    from tagcast.archive.tail import TailWriter
    from tagcast_aws.dispatch.firehose import FirehoseArchive
    from tagcast_aws.dispatch.kept_changes import KeptChanges

RESERVE_MS = 30_000
"""With less time left (ms), no further batch of stored changes begins. An interrupted batch is redelivered."""
PlacedRecords = list[tuple[int, Record]]


def handle(
    event: Mapping[str, Any], archive: FirehoseArchive, tail: TailWriter, events: EventPublisher, kept: KeptChanges
) -> dict[str, Any]:
    """Archive a batch of stream records, publish their events, and write the tails of watched topics.

    Return the first failed record, from which Lambda repeats the batch. An unreadable change is stored in *kept* for a
    later try, so that its shard continues.
    """
    changes = event["Records"]
    records, unread = _read(changes, archive)
    unkept = [place for place in unread if not kept.keep(changes[place])]
    lost = _put(records, archive)
    failed = min((place for place in (lost, *unkept) if place is not None), default=None)
    unpublished = _publish_events([each for each in records if failed is None or each[0] < failed], events)
    failed = failed if unpublished is None else unpublished
    tail.write([record for place, record in records if failed is None or place < failed])
    if failed is None:
        return {"batchItemFailures": []}
    return {"batchItemFailures": [{"itemIdentifier": changes[failed]["dynamodb"]["SequenceNumber"]}]}


def archive_kept(
    kept: KeptChanges, archive: FirehoseArchive, events: EventPublisher, left_ms: Callable[[], int]
) -> dict[str, int]:
    """Archive the changes that *kept* stores in batches and publish their events, while *left_ms* returns enough time.

    Return the numbers of changes in archived batches, and in batches that stay stored after a failure. A batch may be
    archived twice. Its records then have the same ids, and compaction drops the duplicates.
    """
    counts = {"archived": 0, "left": 0}
    while left_ms() > RESERVE_MS and (batch := kept.receive()) is not None:
        records, unread = _read(batch.changes, archive)
        lost = _put(records, archive)
        lost = _publish_events(records, events) if lost is None else lost
        if lost is None and not unread:
            kept.remove(batch)
        counts["archived" if lost is None and not unread else "left"] += len(batch.changes)
        if lost is not None:
            break
    return counts


def _read(changes: Sequence[Mapping[str, Any]], archive: FirehoseArchive) -> tuple[PlacedRecords, list[int]]:
    """Return the records of the changes, each with the place of its change, and the places of unreadable changes."""
    records: PlacedRecords = []
    unread = []
    for place, change in enumerate(changes):
        try:
            records += [(place, record) for record in records_of(change_of(change), archive.keeps_body)]
        except UNREADABLE as fault:
            wiring.logger().error("a change cannot be archived", extra={"fault": type(fault).__name__})
            unread.append(place)
    return records, unread


def _publish_events(records: PlacedRecords, events: EventPublisher) -> int | None:
    """Publish the events of archived records; return the place of the first failure, or None."""
    for place, record in records:
        try:
            events.publish(record)
        except UNREADABLE as fault:
            wiring.logger().error("an event cannot be published", extra={"fault": type(fault).__name__})
        except Exception as fault:  # noqa: BLE001 - after any fault of the tables, the stream repeats the change
            wiring.logger().warning("an event is published later", extra={"fault": type(fault).__name__})
            return place
    return None


def _put(records: PlacedRecords, archive: FirehoseArchive) -> int | None:
    return archive.put((place, record.kind, record.line()) for place, record in records)


@wiring.flush_after
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point named in template.yaml. Operators send ``{"archive": "kept"}`` to archive the stored changes."""
    here = wiring.process()
    if event.get("archive") == "kept":
        return archive_kept(here.kept_changes, here.archive, here.events, context.get_remaining_time_in_millis)
    return handle(event, here.archive, here.tail, here.events, here.kept_changes)
