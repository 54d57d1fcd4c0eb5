"""Rows of tails: the row that says how long a topic is watched, and one row of events for each batch of the stream."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from enum import StrEnum
from typing import cast

from tagcast.ids import accepted_at_of
from tagcast.ports import Store
from tagcast.rows.codec import FROM_KEY, Codec, RowPart, read_part, row_format
from tagcast.rows.keys import tail_key, tail_place, watch_key
from tagcast.rows.values import deflate_json, inflate_json
from tagcast.tables import Put, Table

TAIL_S = 600
"""Seconds that an event is readable; the time to live deletes its row later."""
EVENTS_MAX = 1_000
EVENTS_BYTES_MAX = 300_000
"""The most bytes of the deflated events in a row. DynamoDB allows 409,600 bytes for a row."""


class EventKind(StrEnum):
    """The subject of an event."""

    MESSAGE = "message"
    """A message was accepted."""
    DELIVERY = "delivery"
    """An attempt failed, or a delivery ended or joined a backlog."""
    LANE = "lane"
    """A lane changed its state, or got a new generation."""


@dataclass(frozen=True, slots=True)
class TailEvent:
    """One event. An event of a message has no *ordinal*. An event of a lane has no *message_id*."""

    happened_at: int
    kind: EventKind
    state: str
    message_id: str | None = None
    ordinal: int | None = None
    attempts: int | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of accepted messages, of deliveries and of failed attempts."""

    published: int = 0
    delivered: int = 0
    failed: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class TailBatch:
    """The events of one batch of the stream, oldest first.

    *left_out* is the number of omitted events; *counts* includes them. *place* is an id that contains the time of
    writing.
    """

    place: str
    events: tuple[TailEvent, ...]
    left_out: int
    counts: Counts

    @property
    def written_at(self) -> int:
        """The time at which the batch was written, in milliseconds."""
        return accepted_at_of(self.place)


@dataclass(frozen=True, slots=True)
class TopicWatch:
    """A period in which clients watch a topic: from *since* to *until*. Requests for the tail move *until*."""

    topic: str
    topic_id: str
    since: int
    until: int


WATCHES = row_format(
    watch_key,
    Codec(TopicWatch, {"topic": FROM_KEY}),
    lambda watch: {"ttl": watch.until // 1000 + TAIL_S},
)


TAIL_ROWS = row_format(
    tail_key,
    Codec(
        TailBatch,
        {
            "place": read_part(lambda row: tail_place(row["sk"])),
            "events": RowPart(
                lambda events: {"events": deflate_json([astuple(event) for event in events])},
                lambda row: tuple(TailEvent(at, EventKind(it), *more) for at, it, *more in inflate_json(row["events"])),
            ),
            "counts": Codec(Counts),
        },
    ),
    lambda batch: {"ttl": batch.written_at // 1000 + TAIL_S},
)


def batch_put(topic_id: str, batch: TailBatch) -> Put:
    """Return the write of one batch. If its events are too large, the older half is left out until they fit."""
    row = TAIL_ROWS.row_of(batch)
    while len(cast("bytes", row["events"])) > EVENTS_BYTES_MAX:
        kept = len(batch.events) // 2
        left_out = batch.left_out + len(batch.events) - kept
        batch = replace(batch, events=batch.events[-kept:], left_out=left_out)
        row = TAIL_ROWS.row_of(batch)
    return Put(tail_key(topic_id, batch.place), row)


def watches(store: Store) -> list[TopicWatch]:
    """Return the watches of topics that clients watch now, or watched recently."""
    return [WATCHES.value_of(row) for row in store.query(Table.MESSAGES, watch_key("").pk)]


def batches(store: Store, topic_id: str, *, since: str, before: str | None, limit: int) -> list[TailBatch]:
    """Return at most *limit* batches of a tail, newest first.

    The place of each is *since* or higher, and lower than *before*. If *before* is None, the newest batch comes first.
    """
    newest = "" if before is None else tail_key(topic_id, before).sk + "\x00"
    oldest = tail_key(topic_id, since)
    rows = store.query(Table.MESSAGES, oldest.pk, sk_from=newest, sk_to=oldest.sk, limit=limit)
    return [TAIL_ROWS.value_of(row) for row in rows]
