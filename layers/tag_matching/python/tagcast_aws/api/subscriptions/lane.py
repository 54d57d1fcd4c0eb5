"""The lane of a subscription as callers see it: its state, its head, what it is owed."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from tagcast.instant import rfc3339
from tagcast.operating.lanes import DueDelivery, LaneView
from typing_extensions import TypedDict

from tagcast_aws.api.http.body import Body
from tagcast_aws.api.limits import REASON_LENGTH_MAX


class SkipBody(Body):
    """Why an operator skips the head of a backlog."""

    reason: Annotated[str, Field(min_length=1, max_length=REASON_LENGTH_MAX)]


class HeadAnswer(TypedDict):
    """The head of a backlog."""

    message_id: str
    attempts: int
    next_attempt_at: str | None


class LaneAnswer(TypedDict):
    """The state of a lane; lists count a backlog to 1,000 only, and say so by ``backlog_has_more``."""

    state: str
    backlog: int
    head: HeadAnswer | None
    backlog_has_more: NotRequired[bool]


class DeliveryAnswer(TypedDict):
    """One owed delivery."""

    message_id: str
    state: str
    attempts: int
    next_attempt_at: str | None
    expires_at: str
    last_attempt_at: str | None
    last_outcome: str | None


class BacklogAnswer(TypedDict):
    """One page of a backlog, in its order."""

    deliveries: list[DeliveryAnswer]
    next_cursor: str | None


class LanesAnswer(TypedDict):
    """The subscriptions that a re-push attempts now."""

    lanes: list[str]


def shown_lane(value: LaneView) -> LaneAnswer:
    """Return the lane with its head."""
    head: HeadAnswer | None = None
    if value.head is not None:
        head = {
            "message_id": value.head.message_id,
            "attempts": value.head.attempts,
            "next_attempt_at": _instant(value.head.next_attempt_at),
        }
    answer: LaneAnswer = {"state": value.state.value, "backlog": value.backlog, "head": head}
    if value.has_more:
        answer["backlog_has_more"] = True
    return answer


def shown_delivery(value: DueDelivery) -> DeliveryAnswer:
    """Return one owed delivery of a backlog."""
    return {
        "message_id": value.message_id,
        "state": value.state.value,
        "attempts": value.attempts,
        "next_attempt_at": _instant(value.next_attempt_at),
        "expires_at": rfc3339(value.expires_at),
        "last_attempt_at": _instant(value.last_attempt_at),
        "last_outcome": value.last_outcome,
    }


def _instant(value: int | None) -> str | None:
    return None if value is None else rfc3339(value)
