"""The scan that looks through all messages for what is owed without anybody at work on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tagcast.rows.keys import MESSAGE_PARTITION
from tagcast.rows.listed import FOUND_ATTRIBUTES

FILTER = (
    "begins_with(pk, :message) AND pending > :none AND "
    "((#round = :open AND accepted_at < :open_before) OR expires_at < :over_before)"
)
SHOWN = ", ".join(("pk", "sk", *("#round" if name == "round" else name for name in FOUND_ATTRIBUTES)))
"""``round`` is a reserved word of DynamoDB."""


def search_request(open_before: int, over_before: int, cursor: str | None) -> dict[str, Any]:
    """Return the parameters of one page (a megabyte of the table), which goes on at *cursor*."""
    request: dict[str, Any] = {
        "FilterExpression": FILTER,
        "ProjectionExpression": SHOWN,
        "ExpressionAttributeNames": {"#round": "round"},
        "ExpressionAttributeValues": {
            ":message": {"S": MESSAGE_PARTITION},
            ":none": {"N": "0"},
            ":open": {"S": "open"},
            ":open_before": {"N": str(open_before)},
            ":over_before": {"N": str(over_before)},
        },
    }
    if cursor is not None:
        pk, _, sk = cursor.partition("\x00")
        request["ExclusiveStartKey"] = {"pk": {"S": pk}, "sk": {"S": sk}}
    return request


def cursor_at(last: Mapping[str, Any] | None) -> str | None:
    """Return the cursor behind the last key that a page looked at, or None when there are no more pages.

    >>> cursor_at({"pk": {"S": "MSG#t#1"}, "sk": {"S": "MSG"}}), cursor_at(None)
    ('MSG#t#1\\x00MSG', None)
    """
    return None if not last else f"{last['pk']['S']}\x00{last['sk']['S']}"
