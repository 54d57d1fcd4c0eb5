"""The streams of both tables: what happened, as records to the archive, and to those who watch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tagcast.archive.record import Record
from tagcast.archive.records import records_of
from tagcast_aws import wiring
from tagcast_aws.store.stream import change_of

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext
    from tagcast.archive.tail import Tail
    from tagcast_aws.dispatch.firehose import FirehoseArchive


def handle(event: Mapping[str, Any], archive: FirehoseArchive, tail: Tail) -> dict[str, Any]:
    """Archive the batch of stream records; report the first that was not, from which Lambda repeats.

    A record that cannot be read ends the batch where it stands, so that bisecting leads it to the on-failure queue.
    """
    changes = event["Records"]
    told: list[tuple[int, Record]] = []
    unread: int | None = None
    for place, change in enumerate(changes):
        try:
            records = records_of(change_of(change), archive.keeps_body)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as fault:
            wiring.logger().error("a change cannot be archived", extra={"fault": type(fault).__name__})
            unread = place
            break
        told += [(place, record) for record in records]
    lost = archive.put((place, record.kind, record.line()) for place, record in told)
    failed = min((place for place in (lost, unread) if place is not None), default=None)
    tail.tell([record for place, record in told if failed is None or place < failed])
    if failed is None:
        return {"batchItemFailures": []}
    return {"batchItemFailures": [{"itemIdentifier": changes[failed]["dynamodb"]["SequenceNumber"]}]}


@wiring.metered
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point named in template.yaml."""
    return handle(event, wiring.archive(), wiring.tail())
