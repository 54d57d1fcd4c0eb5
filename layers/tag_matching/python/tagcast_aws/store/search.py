"""Scans of all messages: for pending messages without a worker, and for kept messages of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tagcast.rows.keys import MESSAGE_PARTITION, message_key
from tagcast.rows.listed import FOUND_ATTRIBUTES

FILTER = (
    "begins_with(pk, :message) AND ("
    "(pending > :none AND ((accepted_at < :open_before AND (#round = :open OR apart_round = :open)) OR "
    "expires_at < :over_before)) OR "
    "(attribute_exists(kept) AND expires_at < :over_before))"
)
KEPT = (
    "begins_with(pk, :message) AND (attribute_exists(body) OR attribute_exists(deflated)) AND "
    "attribute_not_exists(replay_of) AND "
    "accepted_at >= :accepted_from AND subscriptions_version < :before_version AND expires_at > :alive_at"
)
KEPT_PAGE = 1_000
"""The rows of a page: few enough that the messages of a page are added within seconds."""
SHOWN = ", ".join(("pk", "sk", *("#round" if name == "round" else name for name in FOUND_ATTRIBUTES)))
"""The attributes in the answer. ``round`` needs a placeholder, because it is a reserved word of DynamoDB."""


def search_request(open_before: int, over_before: int, cursor: str | None) -> dict[str, Any]:
    """Return the parameters of one page (a megabyte of the table) from *cursor* on."""
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
    return request | _going_on(cursor)


def kept_request(
    topic: str, accepted_from: int, before_version: int, alive_at: int, cursor: str | None
) -> dict[str, Any]:
    """Return the parameters of one strongly consistent page of kept messages of *topic*."""
    numbers = {"accepted_from": accepted_from, "before_version": before_version, "alive_at": alive_at}
    request: dict[str, Any] = {
        "FilterExpression": KEPT,
        "ProjectionExpression": "message_id",
        "ExpressionAttributeValues": {
            ":message": {"S": message_key(topic, "").pk},
            **{f":{name}": {"N": str(number)} for name, number in numbers.items()},
        },
        "ConsistentRead": True,
        "Limit": KEPT_PAGE,
    }
    return request | _going_on(cursor)


def _going_on(cursor: str | None) -> dict[str, Any]:
    if cursor is None:
        return {}
    pk, _, sk = cursor.partition("\x00")
    return {"ExclusiveStartKey": {"pk": {"S": pk}, "sk": {"S": sk}}}


def cursor_at(last: Mapping[str, Any] | None) -> str | None:
    """Return the cursor after the last key of a page, or None if there are no more pages.

    >>> cursor_at({"pk": {"S": "MSG#t#1"}, "sk": {"S": "MSG"}}), cursor_at(None)
    ('MSG#t#1\\x00MSG', None)
    """
    return None if not last else f"{last['pk']['S']}\x00{last['sk']['S']}"
