"""Answers to publishing: the id of each accepted message, and the problem of each refused message."""

from __future__ import annotations

from typing import Any

from tagcast.instant import rfc3339
from tagcast.rows.claim import Accepted
from typing_extensions import TypedDict

from tagcast_aws.api.http.answer_types import Instant


class AcceptedAnswer(TypedDict):
    """An accepted message. ``matched`` is the number of subscriptions that matched."""

    message_id: str
    accepted_at: Instant
    expires_at: Instant
    matched: int


class RefusedAnswer(TypedDict):
    """The problem of a refused item of a batch."""

    error: dict[str, Any]


class BatchAnswer(TypedDict):
    """The results of a batch, in the order of its messages."""

    results: list[AcceptedAnswer | RefusedAnswer]


def show_accepted(value: Accepted) -> AcceptedAnswer:
    """Return the answer to one accepted message."""
    return {
        "message_id": value.message_id,
        "accepted_at": rfc3339(value.accepted_at),
        "expires_at": rfc3339(value.expires_at),
        "matched": value.matched,
    }
