"""The tail of a topic: its events as they happen."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NotRequired, cast

from tagcast.errors import Fault, InvalidRequestError
from tagcast.instant import rfc3339
from tagcast.operating.tailing import TailPage, TailRequest, tail
from tagcast.ports import World
from tagcast.rows.codec import dense
from tagcast.rows.tail import EVENTS_MAX, EventKind, TailEvent
from typing_extensions import TypedDict

from tagcast_aws.api.http.answer_types import EVENT_STATES, AnyEventState, Instant
from tagcast_aws.api.http.paging import encode_cursor
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.limits import NAME, TAIL_WAIT_S_MAX


class TailEventAnswer(TypedDict):
    """An event of a message, a delivery or a lane."""

    happened_at: Instant
    kind: Literal["message", "delivery", "lane"]
    state: AnyEventState
    message_id: NotRequired[str]
    subscription: NotRequired[str]
    attempts: NotRequired[int]
    outcome: NotRequired[str]


class CountsAnswer(TypedDict):
    """The numbers of accepted messages, successful deliveries and failed attempts from ``since`` to ``counted_at``.

    Only the time in which a client watched the topic is counted.
    """

    since: Instant
    counted_at: Instant
    published: int
    delivered: int
    failed: int


class TailAnswer(TypedDict):
    """Events, oldest first, and the cursor for the next request. ``left_out`` counts events beyond the maximum."""

    events: list[TailEventAnswer]
    left_out: int
    counts: CountsAnswer
    next_cursor: str


def answer_tail(world: World, request: Request[None]) -> Answer:
    """Watch the events of a topic."""
    faults: list[Fault] = []
    kind = request.choice("kind", tuple(EventKind), faults)
    wish = TailRequest(
        events_max=request.number("max_events", 0, EVENTS_MAX, EVENTS_MAX, faults),
        wait_s=request.number("wait_seconds", 0, TAIL_WAIT_S_MAX, 0, faults),
        cursor=request.cursor(faults),
        subscription=request.word("subscription", NAME, faults),
        state=request.choice("state", EVENT_STATES, faults),
    )
    if faults:
        raise InvalidRequestError(tuple(faults))
    wish = wish if kind is None else replace(wish, kind=EventKind(kind))
    return Answer(200, show_events(tail(world, request.topic, wish)))


def show_events(value: TailPage) -> TailAnswer:
    """Return the answer with a page of events."""
    return {
        "events": [_event(event, name) for event, name in value.events],
        "left_out": value.left_out,
        "counts": {
            "since": rfc3339(value.since),
            "counted_at": rfc3339(value.counted_at),
            "published": value.counts.published,
            "delivered": value.counts.delivered,
            "failed": value.counts.failed,
        },
        "next_cursor": encode_cursor(value.cursor) or "",
    }


def _event(event: TailEvent, name: str | None) -> TailEventAnswer:
    answer = {
        "happened_at": rfc3339(event.happened_at),
        "kind": event.kind.value,
        "state": event.state,
        "message_id": event.message_id,
        "subscription": name,
        "attempts": event.attempts,
        "outcome": event.outcome,
    }
    return cast("TailEventAnswer", dense(answer))


_QUERY = ("cursor", "wait_seconds", "max_events", "kind", "subscription", "state")
ROUTES = (Route("tail", "messages", "GET", "/topics/{topic}/tail", answer_tail, {200: TailAnswer}, query=_QUERY),)
