"""The lane of a subscription as callers see it: its state, its head, what it is owed."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field, StringConstraints
from tagcast.instant import rfc3339, rfc3339_or_none
from tagcast.model import LaneState
from tagcast.operating.lanes import DueDelivery, LaneView
from tagcast.operating.urgency import UrgentLane
from tagcast.ports import QueueCounts
from typing_extensions import TypedDict

from tagcast_aws.api.http.answer_types import UNVERIFIED, AnyEntryState, AnyLaneState, Instant
from tagcast_aws.api.http.body import Body
from tagcast_aws.api.limits import MESSAGE_ID, REASON_LENGTH_MAX


class SkipBody(Body):
    """Why an operator skips the head of a backlog; with *message_id* only while that message is the head.

    Under INDEPENDENT_RETRY any message of the backlog may be named.
    """

    reason: Annotated[str, Field(min_length=1, max_length=REASON_LENGTH_MAX)]
    message_id: Annotated[str, StringConstraints(pattern=MESSAGE_ID)] | None = None


class HeadAnswer(TypedDict):
    """The head of a backlog; without a ``next_attempt_at`` an attempt is under way, or the lane is asleep."""

    message_id: str
    attempts: int
    next_attempt_at: Instant | None


class LaneAnswer(TypedDict):
    """The state of a lane; lists count a backlog to 1,000 only, and say so by ``backlog_has_more``.

    Of a group that is looked at alone, about how much is ``queued`` for its members and ``in_flight`` with them.
    ``filling`` is there while messages from before a new group join its backlog.
    """

    state: AnyLaneState
    backlog: int
    head: HeadAnswer | None
    backlog_has_more: NotRequired[bool]
    queued: NotRequired[int]
    in_flight: NotRequired[int]
    filling: NotRequired[bool]


class DeliveryAnswer(TypedDict):
    """One owed delivery."""

    message_id: str
    state: AnyEntryState
    attempts: int
    next_attempt_at: Instant | None
    expires_at: Instant
    last_attempt_at: Instant | None
    last_outcome: str | None


class BacklogAnswer(TypedDict):
    """One page of a backlog, in its order."""

    deliveries: list[DeliveryAnswer]
    next_cursor: str | None


class LanesAnswer(TypedDict):
    """The subscriptions that a re-push attempts now."""

    lanes: list[str]


class PendingHeadAnswer(DeliveryAnswer):
    """The head of a lane, and since when it is owed."""

    accepted_at: Instant


class UrgentLaneAnswer(TypedDict):
    """A lane that is not active, whichever topic it is of.

    ``host`` is where its pushes go. The ``state`` is ``unverified`` while the endpoint has not agreed to be
    pushed to; ``state_reason`` says why.
    """

    topic: str
    subscription: str
    state: AnyLaneState
    head: PendingHeadAnswer | None
    host: NotRequired[str]
    state_reason: NotRequired[str]


class UrgentLanesAnswer(TypedDict):
    """One page of the lanes of all topics, in the order in which somebody has to look at them."""

    lanes: list[UrgentLaneAnswer]
    next_cursor: str | None


def shown_lane(value: LaneView, counts: QueueCounts | None = None, *, is_pending: bool = False) -> LaneAnswer:
    """Return the lane with its head, and what lies in the queue of a group; *is_pending* while its endpoint may not be
    pushed to.
    """
    head: HeadAnswer | None = None
    if value.head is not None:
        head = {
            "message_id": value.head.message_id,
            "attempts": value.head.attempts,
            "next_attempt_at": rfc3339_or_none(value.head.next_attempt_at),
        }
    answer: LaneAnswer = {
        "state": shown_state(value.state, is_pending=is_pending),
        "backlog": value.backlog,
        "head": head,
    }
    if value.has_more:
        answer["backlog_has_more"] = True
    if value.is_filling:
        answer["filling"] = True
    if counts is not None:
        answer |= {"queued": counts.waiting, "in_flight": counts.in_flight}
    return answer


def shown_state(state: LaneState, *, is_pending: bool) -> str:
    """Return the word for the state of a lane.

    >>> shown_state(LaneState.BLOCKED, is_pending=True), shown_state(LaneState.PAUSED, is_pending=True)
    ('unverified', 'paused')
    """
    return UNVERIFIED if is_pending and not state.is_asleep else state.value


def shown_delivery(value: DueDelivery) -> DeliveryAnswer:
    """Return one owed delivery of a backlog."""
    return {
        "message_id": value.message_id,
        "state": value.state.value,
        "attempts": value.attempts,
        "next_attempt_at": rfc3339_or_none(value.next_attempt_at),
        "expires_at": rfc3339(value.expires_at),
        "last_attempt_at": rfc3339_or_none(value.last_attempt_at),
        "last_outcome": value.last_outcome,
    }


def shown_urgent(value: UrgentLane) -> UrgentLaneAnswer:
    """Return a lane of any topic with what it owes first."""
    head: PendingHeadAnswer | None = None
    if value.head is not None and value.accepted_at is not None:
        head = {**shown_delivery(value.head), "accepted_at": rfc3339(value.accepted_at)}
    answer: UrgentLaneAnswer = {
        "topic": value.topic,
        "subscription": value.subscription,
        "state": shown_state(value.state, is_pending=value.unverified is not None),
        "head": head,
    }
    if value.host is not None:
        answer["host"] = value.host
    if value.unverified is not None:
        answer["state_reason"] = value.unverified
    return answer
