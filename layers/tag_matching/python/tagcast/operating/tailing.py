"""The tail of a topic: returns events as they happen, while a client keeps requesting them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from tagcast.errors import CURSOR_FAULT, InvalidRequestError
from tagcast.ids import first_id_at
from tagcast.model import Topic
from tagcast.operating.subscription_names import subscription_names
from tagcast.ports import World
from tagcast.registry.directory import read_topic
from tagcast.registry.waiting import waiting
from tagcast.rows import tail as rows
from tagcast.rows.tail import EVENTS_MAX, TAIL_S, Counts, EventKind, TailBatch, TailEvent, TopicWatch
from tagcast.rows.waiting import WaitingFor

INTEREST_S = 60
"""A topic is watched for a minute after the last request."""
COUNTED_S = 60
"""Without a cursor, counts cover the last minute."""
LOOK_S = 0.3
LATE_S = 5
"""A row may be written up to 5 s after the time in its key."""
ROWS_AT_ONCE, ROWS_MAX = 25, 300
SEEN_MAX = 100
ID_MAX = 10**20


@dataclass(frozen=True, slots=True)
class TailRequest:
    """A client's request for events of a topic: criteria, the maximum number, and how long to wait for the first event.

    *subscription*, *state* and *kind* are the criteria; None accepts any value.
    """

    events_max: int = EVENTS_MAX
    wait_s: int = 0
    cursor: str | None = None
    subscription: str | None = None
    state: str | None = None
    kind: EventKind | None = None

    def wants(self, event: TailEvent, name: str | None) -> bool:
        """Return whether *event* meets the criteria. *name* is its subscription, None if unknown."""
        wished, found = (self.kind, self.state, self.subscription), (event.kind, event.state, name)
        return all(wish in (None, each) for wish, each in zip(wished, found, strict=True))


@dataclass(frozen=True, slots=True)
class TailPage:
    """Events with the names of their subscriptions, oldest first; *left_out* is the number of omitted events.

    *counts* cover all events from *since* to *counted_at*, whether or not they meet the request's criteria.
    """

    events: tuple[tuple[TailEvent, str | None], ...]
    left_out: int
    counts: Counts
    since: int
    counted_at: int
    cursor: str


@dataclass(slots=True)
class _Reading:
    """A watcher's position: all rows before *floor* were read, and later rows only if they are in *seen*.

    Rows of two writers may appear out of order, so recent places are read again. The counts begin at *since*.
    """

    since: int
    counted_from: int
    floor: str
    seen: frozenset[str] = frozenset()
    left_out: int = 0
    counts: Counts = field(default_factory=Counts)

    @classmethod
    def at(cls, cursor: str | None, now: int) -> _Reading:
        """Continue at a cursor, or begin with the oldest readable event."""
        oldest = first_id_at(now - TAIL_S * 1000)
        if cursor is None:
            counted_from = now - COUNTED_S * 1000
            return cls(counted_from, counted_from, oldest)
        since, floor, *seen = _read(cursor, now)
        return cls(
            max(since, now - TAIL_S * 1000),
            0,
            max(oldest, f"{floor:020d}"),
            frozenset(f"{floor + each:020d}" for each in seen),
        )

    def take(self, newest_first: Sequence[TailBatch], now: int) -> list[TailEvent]:
        """Return the new events, oldest first, and record them as read."""
        fresh = [batch for batch in newest_first if batch.place > self.floor and batch.place not in self.seen]
        events = list(chain.from_iterable(batch.events for batch in reversed(fresh)))
        for batch in fresh:
            self.left_out += batch.left_out
            if batch.written_at >= self.counted_from:
                self.counts += batch.counts
        self.left_out += max(0, len(events) - EVENTS_MAX)
        places = sorted({*self.seen, *(batch.place for batch in newest_first)}, reverse=True)
        late = [self.floor, first_id_at(now - LATE_S * 1000), *places[SEEN_MAX : SEEN_MAX + 1]]
        self.floor = max(late)
        self.seen = frozenset(place for place in places if place > self.floor)
        return events[-EVENTS_MAX:]

    def cursor(self, now: int) -> str:
        """Return the cursor of the next request."""
        floor = int(self.floor)
        return json.dumps([now, floor, *(int(place) - floor for place in sorted(self.seen))], separators=(",", ":"))


def tail(world: World, topic: str, wish: TailRequest) -> TailPage:
    """Return the events after the request's cursor; without a cursor, all readable events.

    Records that the topic is watched. Without a matching event, waits for one for at most the requested time. Raises
    NotFoundError, InvalidRequestError (the cursor), ThrottledError (too many waiting requests).
    """
    known = read_topic(world, topic)
    reading = _Reading.at(wish.cursor, world.clock.now())
    watched = _renew_watch(world, known)
    events = _read_events(world, known, wish, reading)
    if wish.wait_s and not events:
        with waiting(world, topic, WaitingFor.EVENTS, wish.wait_s):
            until = world.clock.monotonic() + wish.wait_s
            while not events and (left_s := until - world.clock.monotonic()) > 0:
                world.clock.sleep(min(LOOK_S, left_s))
                events = _read_events(world, known, wish, reading)
    now = world.clock.now()
    shown = events[len(events) - min(len(events), wish.events_max) :]
    return TailPage(
        tuple(shown),
        reading.left_out + len(events) - len(shown),
        reading.counts,
        max(watched.since, reading.since),
        now,
        reading.cursor(now),
    )


def _read(cursor: str, now: int) -> list[int]:
    """Return the numbers of a cursor: an instant, an id, and the distances of later ids."""
    try:
        numbers = json.loads(cursor)
    except (ValueError, RecursionError):
        numbers = None
    is_list = isinstance(numbers, list) and len(numbers) >= 2 and all(type(each) is int for each in numbers)
    if not is_list or not (min(numbers) >= 0 and numbers[0] <= now + LATE_S * 1000 and sum(numbers) < ID_MAX):
        raise InvalidRequestError((CURSOR_FAULT,))
    return list(numbers)


def _renew_watch(world: World, topic: Topic) -> TopicWatch:
    """Record that the topic is watched, unless a recent request recorded this."""
    now = world.clock.now()
    known = rows.WATCHES.read(world.store, topic.name)
    is_unbroken = known is not None and known.topic_id == topic.topic_id and known.until > now
    if known is not None and is_unbroken and known.until > now + INTEREST_S * 500:
        return known
    since = known.since if known is not None and is_unbroken else now
    watched = TopicWatch(topic.name, topic.topic_id, since, now + INTEREST_S * 1000)
    world.store.write(rows.WATCHES.put(watched, topic.name))
    return watched


def _read_events(
    world: World, topic: Topic, wish: TailRequest, reading: _Reading
) -> list[tuple[TailEvent, str | None]]:
    found = _newest(world, topic.topic_id, reading)
    return _select_events(world, topic, wish, reading.take(found, world.clock.now()))


def _newest(world: World, topic_id: str, reading: _Reading) -> list[TailBatch]:
    """Return the newest unread batches, newest first, until there are enough events for a page.

    If there are more than :data:`ROWS_MAX`, the counts begin with the oldest of the returned batches.
    """
    found: list[TailBatch] = []
    events = 0
    while len(found) < ROWS_MAX:
        before = found[-1].place if found else None
        part = rows.batches(world.store, topic_id, since=reading.floor, before=before, limit=ROWS_AT_ONCE)
        found += part
        events += sum(len(batch.events) for batch in part if batch.place not in reading.seen)
        if len(part) < ROWS_AT_ONCE or found[-1].place <= reading.floor:
            return found
        if events >= EVENTS_MAX and found[-1].written_at < reading.counted_from:
            return found
    reading.since = max(reading.since, found[-1].written_at)
    return found


def _select_events(
    world: World, topic: Topic, wish: TailRequest, events: Sequence[TailEvent]
) -> list[tuple[TailEvent, str | None]]:
    """Return the matching events, each with the name of its subscription."""
    ordinals = {event.ordinal for event in events if event.ordinal is not None}
    names = subscription_names(world, topic.name, topic.topic_id, ordinals)
    named = [(e, None if e.ordinal is None else names.get(e.ordinal, f"#{e.ordinal}")) for e in events]
    return [(event, name) for event, name in named if wish.wants(event, name)]
