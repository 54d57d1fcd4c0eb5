"""The tail of a topic: what the API answers, as values, and the operation that asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tagcast_client.operation import Operation, query_of, reads, topic_path


@dataclass(frozen=True, slots=True)
class TailEvent:
    """An event of a message, a delivery or a lane (*kind*)."""

    happened_at: datetime
    kind: str
    state: str
    message_id: str | None = None
    subscription: str | None = None
    attempts: int | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many messages were accepted, deliveries made and attempts failed *since* then, until *counted_at*."""

    since: datetime
    counted_at: datetime
    published: int
    delivered: int
    failed: int


@dataclass(frozen=True, slots=True)
class Tail:
    """Events, oldest first, without *left_out* more. Continue at *next_cursor*."""

    events: tuple[TailEvent, ...]
    left_out: int
    counts: Counts
    next_cursor: str


@dataclass(frozen=True, slots=True)
class TailWish:
    """A selection of events: by *kind* (message, delivery, lane), subscription and state."""

    kind: str | None = None
    subscription: str | None = None
    state: str | None = None
    max_events: int | None = None


def tail(topic: str, wish: TailWish, cursor: str | None, wait_seconds: int | None) -> Operation[Tail]:
    """GET /topics/{topic}/tail."""
    query = {
        "kind": wish.kind,
        "subscription": wish.subscription,
        "state": wish.state,
        "max_events": wish.max_events,
        "cursor": cursor,
        "wait_seconds": wait_seconds,
    }
    return Operation("GET", topic_path(topic, "tail"), reads(Tail), query=query_of(query))
