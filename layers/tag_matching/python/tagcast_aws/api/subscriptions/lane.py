"""The lane of a subscription in requests and answers: its state, its head and its backlog."""

from __future__ import annotations

from typing import Annotated, NotRequired, cast

from pydantic import Field, StringConstraints
from tagcast.instant import rfc3339, rfc3339_or_none
from tagcast.model import LaneState
from tagcast.operating.lanes import DueDelivery, LaneView
from tagcast.operating.urgent_lanes import UrgentLane
from tagcast.ports import QueueCounts
from tagcast.rows.codec import dense
from typing_extensions import TypedDict

from tagcast_aws.api.http.answer_types import UNVERIFIED, AnyEntryState, AnyLaneState, Instant
from tagcast_aws.api.http.body import Body
from tagcast_aws.api.limits import MESSAGE_ID, REASON_LENGTH_MAX


class SkipBody(Body):
    """The reason for skipping the head of a backlog.

    With ``message_id``, the skip fails if another message is the head.

    Under INDEPENDENT_RETRY, ``message_id`` may be any of the first 1,000 messages. It is required if there are several.
    """

    reason: Annotated[str, Field(min_length=1, max_length=REASON_LENGTH_MAX)]
    message_id: Annotated[str, StringConstraints(pattern=MESSAGE_ID)] | None = None


class HeadAnswer(TypedDict):
    """The head of a backlog.

    ``next_attempt_at`` is null during an attempt, and while the lane is paused, suspended or unverified.
    """

    message_id: str
    attempts: int
    next_attempt_at: Instant | None


class LaneAnswer(TypedDict):
    """The state of a lane. ``backlog`` counts at most 1,000 deliveries; in lists and after actions at most 100.

    ``backlog_has_more`` is true if the backlog is longer. The answer about one group also has ``queued`` and
    ``in_flight``: the approximate numbers of visible and of pulled messages. ``filling`` is true while earlier messages
    join the backlog of a new group.
    """

    state: AnyLaneState
    backlog: int
    head: HeadAnswer | None
    backlog_has_more: NotRequired[bool]
    queued: NotRequired[int]
    in_flight: NotRequired[int]
    filling: NotRequired[bool]


class DeliveryAnswer(TypedDict):
    """One pending delivery of a backlog. ``next_attempt_at`` is null if no attempt is planned yet."""

    message_id: str
    state: AnyEntryState
    attempts: int
    next_attempt_at: Instant | None
    expires_at: Instant
    last_attempt_at: Instant | None
    last_outcome: str | None


class BacklogAnswer(TypedDict):
    """One page of a backlog, in the order of the backlog. ``next_cursor`` is null on the last page."""

    deliveries: list[DeliveryAnswer]
    next_cursor: str | None


class LanesAnswer(TypedDict):
    """The names of the subscriptions that are retried now."""

    lanes: list[str]


class PendingHeadAnswer(DeliveryAnswer):
    """The delivery at the head of a lane. ``accepted_at`` is the time at which its message was accepted."""

    accepted_at: Instant


class UrgentLaneAnswer(TypedDict):
    """A lane that is not active, of any topic.

    ``host`` is the host of the subscription's endpoint; a group has none. While the endpoint is unverified,
    ``state_reason`` says why, and ``state`` is ``unverified`` unless the lane is paused or suspended.
    """

    topic: str
    subscription: str
    state: AnyLaneState
    head: PendingHeadAnswer | None
    host: NotRequired[str]
    state_reason: NotRequired[str]


class UrgentLanesAnswer(TypedDict):
    """One page of the lanes that are not active, of all topics, the most urgent first.

    ``next_cursor`` is null on the last page.
    """

    lanes: list[UrgentLaneAnswer]
    next_cursor: str | None


def show_lane(value: LaneView, counts: QueueCounts | None = None, *, is_unverified: bool = False) -> LaneAnswer:
    """Return the answer with a lane and its head.

    *counts* are the numbers of messages in a group's queue. *is_unverified* says that the endpoint is not verified yet.
    """
    head: HeadAnswer | None = None
    if value.head is not None:
        head = {
            "message_id": value.head.message_id,
            "attempts": value.head.attempts,
            "next_attempt_at": rfc3339_or_none(value.head.next_attempt_at),
        }
    answer: LaneAnswer = {
        "state": show_state(value.state, is_unverified=is_unverified),
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


def show_state(state: LaneState, *, is_unverified: bool) -> str:
    """Return the API's word for a lane's state. A lane that is not asleep is ``unverified`` if *is_unverified*.

    >>> show_state(LaneState.BLOCKED, is_unverified=True), show_state(LaneState.PAUSED, is_unverified=True)
    ('unverified', 'paused')
    """
    return UNVERIFIED if is_unverified and not state.is_asleep else state.value


def show_delivery(value: DueDelivery) -> DeliveryAnswer:
    """Return the answer with one pending delivery of a backlog."""
    return {
        "message_id": value.message_id,
        "state": value.state.value,
        "attempts": value.attempts,
        "next_attempt_at": rfc3339_or_none(value.next_attempt_at),
        "expires_at": rfc3339(value.expires_at),
        "last_attempt_at": rfc3339_or_none(value.last_attempt_at),
        "last_outcome": value.last_outcome,
    }


def show_urgent_lane(value: UrgentLane) -> UrgentLaneAnswer:
    """Return the answer with a lane of any topic and its head."""
    head: PendingHeadAnswer | None = None
    if value.head is not None and value.accepted_at is not None:
        head = {**show_delivery(value.head), "accepted_at": rfc3339(value.accepted_at)}
    answer = {
        "topic": value.topic,
        "subscription": value.subscription,
        "state": show_state(value.state, is_unverified=value.unverified is not None),
        "head": head,
        **dense({"host": value.host, "state_reason": value.unverified}),
    }
    return cast("UrgentLaneAnswer", answer)
