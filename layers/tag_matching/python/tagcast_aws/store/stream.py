"""Decodes records of the tables' streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tagcast.archive.record import RowChange
from tagcast.ports import Row
from tagcast.repairing.relay import Arrival, EndedDelivery
from tagcast.rows.due import UNTOLD
from tagcast.rows.keys import RowKind, kind_of
from tagcast.rows.lane import LANES, starts_workflow
from tagcast.rows.message import MESSAGES
from tagcast.rows.values import text

from tagcast_aws.store.attributes import to_row

TTL_PRINCIPAL = "dynamodb.amazonaws.com"


def arrival_of(record: Mapping[str, Any]) -> Arrival | None:
    """Return the message, lane or end that *record* wrote, or None if the relay has nothing to do for the record."""
    change = record["dynamodb"]
    image = change.get("NewImage")
    if image is None:
        return None
    row = _row(image)
    match kind_of(row):
        case RowKind.MESSAGE if record["eventName"] == "INSERT":
            return MESSAGES.value_of(row)
        case RowKind.LANE if starts_workflow(_row(change.get("OldImage", {})), row):
            return LANES.value_of(row)
        case RowKind.END | RowKind.ROUND:
            return EndedDelivery(text(row, "topic"), text(row, "message_id"))
    return None


def change_of(record: Mapping[str, Any]) -> RowChange:
    """Return the change in *record*: both images, its time, and whether the time to live removed the row."""
    change = record["dynamodb"]
    before, after = change.get("OldImage"), change.get("NewImage")
    return RowChange(
        before=_row(before) if before else None,
        after=_row(after) if after else None,
        changed_at=round(change["ApproximateCreationDateTime"] * 1000),
        removed_by_ttl=record.get("userIdentity", {}).get("principalId") == TTL_PRINCIPAL,
    )


def _row(image: Mapping[str, Any]) -> Row:
    """Return the row in an image, without the attributes that consumers of the stream must not see."""
    return to_row({name: attribute for name, attribute in image.items() if name not in UNTOLD})
