"""The tail: short events for clients that watch a topic, derived from archive records as changes happen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from tagcast.archive.record import Record, RecordKind
from tagcast.model import EntryState
from tagcast.ports import Clock, Dice, Store, Telemetry
from tagcast.rows.tail import EVENTS_MAX, Counts, EventKind, TailBatch, TailEvent, TopicWatch, batch_put, watches

KNOWN_S = 1.0
"""A process caches the watches for a second."""
EVENTS_PER_S = 200
"""A process writes on average at most 200 events per second for each topic, but counts all events."""
FAILED = (EntryState.BLOCKED, EntryState.DISCARDED)


@dataclass(slots=True)
class Share:
    """The number of events that a topic may still write: *left* at the time *at* (seconds).

    The number grows by *per_s* a second, up to *burst*.
    """

    left: float = EVENTS_MAX
    at: float = 0.0
    burst: int = EVENTS_MAX
    per_s: int = EVENTS_PER_S

    def take(self, wanted: int, now: float) -> int:
        """Take up to *wanted* events, and return the number of events taken. *now* is in seconds.

        >>> share = Share()
        >>> share.take(1_500, 0.0), share.take(1_500, 1.0), share.take(50, 9.0)
        (1000, 200, 50)
        """
        self.left = min(self.burst, self.left + self.per_s * (now - self.at))
        self.at = now
        taken = min(wanted, int(self.left))
        self.left -= taken
        return taken


@dataclass(slots=True)
class TailWriter:
    """Writes the events of watched topics to their tails. Caches for a second which topics clients watch."""

    store: Store
    clock: Clock
    dice: Dice
    telemetry: Telemetry
    _known: Sequence[TopicWatch] = ()
    _known_at: float | None = None
    _shares: dict[str, Share] = field(default_factory=dict)

    def write(self, records: Sequence[Record]) -> None:
        """Write the events of *records* for topics that clients watch, one row for each topic.

        Events above a topic's share are left out, the oldest first. A failure is only logged and counted.
        """
        try:
            self._write_events(records)
        except Exception as fault:  # noqa: BLE001 - reported; a fault of the tail must not repeat archived records
            self.telemetry.record_failure("the tail", fault)

    def _write_events(self, records: Sequence[Record]) -> None:
        watched = self._current_watches()
        if not watched:
            return
        found = [(watch.topic_id, record) for record in records if (watch := _watch_of(record, watched)) is not None]
        found.sort(key=lambda each: each[0])
        for topic_id, group in groupby(found, key=lambda each: each[0]):
            self._write(topic_id, [record for _, record in group])

    def _write(self, topic_id: str, records: Sequence[Record]) -> None:
        events = [event_of(record) for record in records]
        now = self.clock.monotonic()
        count = self._shares.setdefault(topic_id, Share(at=now)).take(len(events), now)
        shown = tuple(events[len(events) - count :])
        place = self.dice.unique_id(self.clock.now())
        self.store.write(batch_put(topic_id, TailBatch(place, shown, len(events) - count, count_records(records))))

    def _current_watches(self) -> dict[str, TopicWatch]:
        """Return the current watches, by topic name and by id."""
        if self._known_at is None or self.clock.monotonic() >= self._known_at + KNOWN_S:
            self._known_at = self.clock.monotonic()
            self._known = watches(self.store)
            if not self._known:
                self._shares.clear()
        now = self.clock.now()
        return {name: each for each in self._known if each.until > now for name in (each.topic, each.topic_id)}


def _watch_of(record: Record, watched: dict[str, TopicWatch]) -> TopicWatch | None:
    """Return the watch of a record's topic, or None. Topic names begin with a letter, ids never."""
    if record.kind is RecordKind.SUBSCRIPTIONS:
        return None
    named = record.fields.get("topic_id") or record.fields["topic"]
    return watched.get(named)


def event_of(record: Record) -> TailEvent:
    """Return the tail event of a record of a message, a delivery or a lane."""
    fields = record.fields
    if record.kind is RecordKind.MESSAGES:
        state = "accepted" if fields["matched"] else "unmatched"
        return TailEvent(fields["accepted_at"], EventKind.MESSAGE, state, fields["message_id"])
    if record.kind is RecordKind.LANES:
        return TailEvent(fields["changed_at"], EventKind.LANE, fields["state"], ordinal=fields["ordinal"])
    happened_at = fields.get("last_attempt_at") or fields["changed_at"]
    about = fields["message_id"], fields["ordinal"], fields["attempts"], fields.get("outcome")
    return TailEvent(happened_at, EventKind.DELIVERY, fields["state"], *about)


def count_records(records: Iterable[Record]) -> Counts:
    """Return how many accepted messages, delivered deliveries and failed attempts *records* have."""
    published = delivered = failed = 0
    for record in records:
        state, attempts = record.fields.get("state"), record.fields.get("attempts")
        published += record.kind is RecordKind.MESSAGES
        if record.kind is RecordKind.DELIVERIES:
            delivered += state == EntryState.DELIVERED
            failed += state in FAILED and bool(attempts)
    return Counts(published, delivered, failed)
