"""Due rows: the pending deliveries in the backlog of a lane that is not active, and the writes of these rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

from tagcast.ids import accepted_at_of
from tagcast.model import Entry, EntryState, PastAttempt
from tagcast.rows.codec import Codec, key_part, optional_part, row_format
from tagcast.rows.ended_entries import bound_outcome
from tagcast.rows.keys import due_key, pulled_key
from tagcast.rows.message import ttl_after, ttl_attribute
from tagcast.rows.values import deflate_json, inflate_json
from tagcast.tables import Delete, Key, Put, Write
from tagcast.topic_settings import RETENTION_S_MAX

REMEMBERED_MAX = 10
HISTORY_BYTES_MAX = 4_096
"""A row holds a delivery's last attempts in at most 4 KiB. A few similar attempts take some hundred bytes."""
PLACES = 16
"""A batch that joins a backlog takes 16 positions, or a multiple of 16."""


History = Sequence[PastAttempt]


def pack_history(history: History, bytes_max: int = HISTORY_BYTES_MAX) -> bytes:
    """Return the last :data:`REMEMBERED_MAX` attempts of *history*, packed into at most *bytes_max* bytes.

    If the attempts are too large, their responses are dropped, the oldest first. If that is not enough, attempts are
    dropped, the oldest first.

    >>> history = (PastAttempt(1, 1_500, 20, "http 500", 500, "no"), PastAttempt(2, 3_000, 0, "timeout after 5 s"))
    >>> unpack_history(pack_history(history)) == history
    True
    """
    kept = list(history[-REMEMBERED_MAX:])
    while len(written := deflate_json([astuple(each) for each in kept])) > bytes_max:
        speaking = next((place for place, each in enumerate(kept) if each.response), None)
        if speaking is None:
            del kept[0]
        else:
            kept[speaking] = replace(kept[speaking], response="")
    return written


def unpack_history(written: bytes) -> tuple[PastAttempt, ...]:
    """Return the attempts that :func:`pack_history` packed."""
    return tuple(PastAttempt(*row) for row in inflate_json(written))


ATTEMPTED = {
    "last_outcome": optional_part("last_outcome", bound_outcome),
    "history": optional_part("history", pack_history, unpack_history, ()),
}
"""The parts of rows for the outcome of the last attempt, and for the last attempts."""


@dataclass(frozen=True, slots=True)
class PendingDelivery:
    """A pending delivery of a lane that is not active. Its attempts are stored here, never in the lane.

    - *attempts*: the number of attempts made. *history*: the last of them.
    - *unjudged*: the filter function was not invoked for this delivery yet.
    - *not_before*: the earliest time of the next attempt, e.g. from a Retry-After. If None, the message sets no limit.
    """

    subscription_id: str
    position: str
    message_id: str
    attempts: int
    expires_at: int
    last_attempt_at: int | None = None
    last_outcome: str | None = None
    unjudged: bool = False
    history: tuple[PastAttempt, ...] = ()
    not_before: int | None = None

    @property
    def key(self) -> Key:
        """The key of the due row."""
        return due_key(self.subscription_id, self.position, self.message_id)

    def reschedule(self, due_at: int) -> PendingDelivery:
        """Return this delivery with the position for its next attempt at *due_at*, under INDEPENDENT_RETRY."""
        return replace(self, position=position_at(due_at))

    @property
    def place(self) -> str:
        """The sort key of the due row. A page whose cursor is this key begins after this row."""
        return self.key.sk

    @property
    def accepted_at(self) -> int:
        """The acceptance time of the message, taken from its id."""
        return accepted_at_of(self.message_id)

    def entry(self, state: EntryState, outcome: str | None = None) -> Entry:
        """Return the entry of this delivery if it ends in *state* without another attempt.

        Without *outcome*, the entry has the outcome of the last attempt.

        >>> PendingDelivery("t.1", "0", "7", 2, 9, 5, "http 500").entry(EntryState.CANCELLED, "skipped").last_outcome
        'skipped'
        """
        return Entry(state, self.attempts, self.last_attempt_at, outcome or self.last_outcome, history=self.history)

    def after_failure(self, past: PastAttempt, not_before: int | None) -> PendingDelivery:
        """Return this delivery after the failed attempt *past*.

        The next attempt may begin at *not_before*, or at any time if *not_before* is None. If the delivery was only
        postponed, *past* has the number of the last attempt. Then no attempt is counted.
        """
        waits = replace(self, last_outcome=past.outcome, not_before=not_before)
        if past.number == self.attempts:
            return waits
        return replace(waits, attempts=past.number, last_attempt_at=past.ended_at, history=(*self.history, past))

    def as_last_seen(self, entry: Entry) -> Entry:
        """Return *entry* with the attempts of this row put before the entry's own attempts.

        If *entry* has no time of an attempt, it gets the time of this row's last attempt. If *entry* has no outcome
        either, it also gets the outcome of that attempt.
        """
        entry = replace(entry, history=self.history + entry.history)
        if entry.last_attempt_at is not None:
            return entry
        return replace(
            entry, last_attempt_at=self.last_attempt_at, last_outcome=entry.last_outcome or self.last_outcome
        )


DUES = row_format(
    due_key,
    Codec(
        PendingDelivery,
        {
            "subscription_id": key_part("pk", 1),
            "position": key_part("sk", 0),
            "message_id": key_part("sk", 1),
            **ATTEMPTED,
        },
    ),
    ttl_attribute,
)
LATE_POSITION = f"{0:020d}"
"""The position of all late entries. They come before all batches, because the positions of batches begin at 16."""


def position(appended: int, place: int) -> str:
    """Return the position in a backlog of the delivery with number *place*, from 0, in a batch that joins.

    *appended* is the lane's ``appended`` before the batch joins. A batch of more than 16 deliveries spans several
    values of ``appended``.

    >>> position(3, 2) < position(3, 10) < position(4, 0) == position(3, 16)
    True
    """
    assert place >= 0
    return f"{appended * PLACES + place:020d}"


def position_at(due_at: int) -> str:
    """Return the position of a delivery that is due at *due_at* (milliseconds), in a backlog under INDEPENDENT_RETRY.

    >>> position_at(1_800_000_000_000) < position(appended_after(1_800_000_000_000), 0)
    True
    """
    return f"{due_at:020d}"


def appended_after(now: int) -> int:
    """Return the least ``appended`` whose positions are above those of all messages accepted up to 60 s after *now*.

    Under INDEPENDENT_RETRY, a position is the time when a delivery is due, at most the message's expiry. After a change
    to another strategy, batches join at this ``appended``, behind all these deliveries.
    """
    return (now + RETENTION_S_MAX * 1000 + 60_000) // PLACES + 1


def due_put(due: PendingDelivery) -> Put:
    """Return the write that adds a delivery to its backlog."""
    return Put(due.key, DUES.row_of(due))


def due_change(known: PendingDelivery, changed: PendingDelivery) -> Put:
    """Return the write that replaces the due row *known* by *changed*, which has the same position.

    The write fails if an attempt was counted after *known* was read.
    """
    return Put(known.key, DUES.row_of(changed), {"attempts": known.attempts})


def due_reschedule(known: PendingDelivery, changed: PendingDelivery) -> tuple[Write, ...]:
    """Return the writes that replace the due row *known* by *changed*, even if *changed* has another position.

    The writes fail if an attempt was counted after *known* was read.
    """
    if changed.key == known.key:
        return (due_change(known, changed),)
    return due_delete_as_read(known), due_put(changed)


def due_delete(due: PendingDelivery) -> Delete:
    """Return the write that removes a delivery from its backlog, without a condition."""
    return Delete(due.key)


def due_delete_as_read(due: PendingDelivery) -> Delete:
    """Return the write that removes *due* from its backlog. It fails if an attempt was counted after *due* was read."""
    return Delete(due.key, {"attempts": due.attempts})


NOT_ACKNOWLEDGED = "not acknowledged in time"


@dataclass(frozen=True, slots=True)
class FailedPulls:
    """The failed pulls of a delivery: their number (*attempts*), and the time and the outcome of the last one."""

    attempts: int
    last_attempt_at: int
    last_outcome: str

    def entry(self, state: EntryState) -> Entry:
        """Return the delivery's entry in the state map, in *state* and with the attempts of these pulls."""
        return Entry(state, self.attempts, self.last_attempt_at, self.last_outcome)


PULLED = row_format(pulled_key, Codec(FailedPulls))


def last_pull(known: FailedPulls | None, pulls: int, now: int) -> FailedPulls:
    """Return the failed pulls of a delivery that was pulled *pulls* times without success.

    *known* are the stored failed pulls, None if there are none. If they do not include the last pull, it gets the time
    *now* and the outcome "not acknowledged in time".

    >>> last_pull(FailedPulls(1, 5, "returned"), 1, 9)
    FailedPulls(attempts=1, last_attempt_at=5, last_outcome='returned')
    >>> last_pull(FailedPulls(1, 5, "returned"), 2, 9)
    FailedPulls(attempts=2, last_attempt_at=9, last_outcome='not acknowledged in time')
    """
    if known is None or known.attempts < pulls:  # The last pull was not stored.
        return FailedPulls(pulls, now, NOT_ACKNOWLEDGED)
    return known


def pulled_put(topic: str, message_id: str, ordinal: int, pulled: FailedPulls, expires_at: int) -> Put:
    """Return the write that stores the failed pulls of a delivery. The message expires at *expires_at*."""
    row = {**PULLED.row_of(pulled), "ttl": ttl_after(expires_at)}
    return Put(pulled_key(topic, message_id, ordinal), row)


UNTOLD = frozenset({"history"})
"""The attributes of rows that readers of the stream, such as the archive, do not see."""
