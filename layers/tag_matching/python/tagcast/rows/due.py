"""Rows of owed deliveries: the backlog of a lane that is not active, and the writes to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, cast

from tagcast.ids import accepted_at_of
from tagcast.model import Entry, EntryState, PastAttempt
from tagcast.rows.ended_entries import bounded
from tagcast.rows.keys import due_key, pulled_key
from tagcast.rows.kind import Attributes, Kind
from tagcast.rows.message import ttl_after
from tagcast.rows.values import deflated_json, dense, inflated_json
from tagcast.tables import Delete, Key, Put, Row, Value, Write
from tagcast.topic_settings import RETENTION_S_MAX

REMEMBERED_MAX = 10
HISTORY_BYTES_MAX = 4_096
"""A due row remembers at most 4 KiB of its last attempts; a few that are alike take some hundred bytes."""
PLACES = 16
"""A batch that joins a backlog takes 16 places, or as many times 16 as it needs."""


History = Sequence[PastAttempt]


def packed_history(history: History, bytes_max: int = HISTORY_BYTES_MAX) -> bytes:
    """Return the last of *history* in at most *bytes_max*: the oldest are shortened first, then left out.

    >>> history = (PastAttempt(1, 1_500, 20, "http 500", 500, "no"), PastAttempt(2, 3_000, 0, "timeout after 5 s"))
    >>> unpacked_history(packed_history(history)) == history
    True
    """
    kept = list(history[-REMEMBERED_MAX:])
    while len(written := deflated_json(attempt_rows(kept))) > bytes_max:
        speaking = next((place for place, each in enumerate(kept) if each.response), None)
        if speaking is None:
            del kept[0]
        else:
            kept[speaking] = replace(kept[speaking], response="")
    return written


def unpacked_history(written: bytes) -> tuple[PastAttempt, ...]:
    """Return the attempts that :func:`packed_history` kept."""
    return tuple(PastAttempt(*row) for row in inflated_json(written))


def attempt_rows(history: History) -> list[Any]:
    """Return attempts as JSON has them."""
    return [astuple(each) for each in history]


@dataclass(frozen=True, slots=True)
class PendingDelivery:
    """One owed delivery of a lane that is not active; attempts live here and never in the lane.

    *unjudged* says that the subscription's filter function has yet to be asked; no other row has the attribute.
    *not_before* is when the receiver asked to be tried again, by Retry-After. *history* are the last attempts.
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
        """Return the key of the row."""
        return due_key(self.subscription_id, self.position, self.message_id)

    def planned(self, due_at: int) -> PendingDelivery:
        """Return the delivery where what is due then stands in the backlog of a lane under INDEPENDENT_RETRY."""
        return replace(self, position=position_at(due_at))

    @property
    def place(self) -> str:
        """Return where the delivery stands in its backlog: the next page begins behind it."""
        return self.key.sk

    @property
    def accepted_at(self) -> int:
        """Return when the message was accepted, which its id says."""
        return accepted_at_of(self.message_id)

    def entry(self, state: EntryState, outcome: str | None = None) -> Entry:
        """Return the entry with which the delivery ends without another push.

        >>> PendingDelivery("t.1", "0", "7", 2, 9, 5, "http 500").entry(EntryState.CANCELLED, "skipped").last_outcome
        'skipped'
        """
        return Entry(state, self.attempts, self.last_attempt_at, outcome or self.last_outcome, history=self.history)

    def failed(self, past: PastAttempt, not_before: int | None) -> PendingDelivery:
        """Return the row after one more attempt that failed; its receiver may want the next one *not_before* then."""
        return replace(
            self,
            attempts=past.number,
            last_attempt_at=past.ended_at,
            last_outcome=past.outcome,
            history=(*self.history, past),
            not_before=not_before,
        )

    def as_last_seen(self, entry: Entry) -> Entry:
        """Return *entry* with the attempts before; if it ended without another, with what is known of the last one."""
        entry = replace(entry, history=self.history + entry.history)
        if entry.last_attempt_at is not None:
            return entry
        return replace(
            entry, last_attempt_at=self.last_attempt_at, last_outcome=entry.last_outcome or self.last_outcome
        )


def _due_row(due: PendingDelivery) -> dict[str, Value]:
    return dense(
        {
            "attempts": due.attempts,
            "expires_at": due.expires_at,
            "last_attempt_at": due.last_attempt_at,
            "last_outcome": bounded(due.last_outcome),
            "unjudged": 1 if due.unjudged else None,
            "history": packed_history(due.history) if due.history else None,
            "not_before": due.not_before,
            "ttl": ttl_after(due.expires_at),
        }
    )


def _due_in(row: Attributes) -> PendingDelivery:
    place, _, message_id = row["sk"].partition("#")
    return PendingDelivery(
        subscription_id=row["pk"].partition("#")[2],
        position=place,
        message_id=message_id,
        attempts=row["attempts"],
        expires_at=row["expires_at"],
        last_attempt_at=row.get("last_attempt_at"),
        last_outcome=row.get("last_outcome"),
        unjudged="unjudged" in row,
        history=unpacked_history(row["history"]) if "history" in row else (),
        not_before=row.get("not_before"),
    )


DUES = Kind(due_key, _due_row, _due_in)
LATE_POSITION = f"{0:020d}"
"""Where what is older than its group stands, in the order of the messages: before all batches, whose first is 1."""


def position(appended: int, place: int) -> str:
    """Return where a delivery stands in its backlog; a large batch reaches into those of some ``appended`` behind it.

    >>> position(3, 2) < position(3, 10) < position(4, 0) == position(3, 16)
    True
    """
    assert place >= 0
    return f"{appended * PLACES + place:020d}"


def position_at(due_at: int) -> str:
    """Return where a delivery stands in the backlog of a lane under INDEPENDENT_RETRY: by when it is due.

    >>> position_at(1_800_000_000_000) < position(appended_after(1_800_000_000_000), 0)
    True
    """
    return f"{due_at:020d}"


def appended_after(now: int) -> int:
    """Return the least ``appended`` whose positions stand behind every instant at which anything owed *now* is due.

    So what joins such a backlog in order, once the subscription keeps an order, stands behind what is older.
    """
    return (now + RETENTION_S_MAX * 1000) // PLACES + 1


def due_put(due: PendingDelivery) -> Put:
    """Return the write of a delivery that joins its backlog."""
    return Put(due.key, DUES.row_of(due))


def due_change(known: PendingDelivery, changed: PendingDelivery) -> Put:
    """Return the write of *changed* over *known*, unless an attempt was counted since that was read."""
    return Put(known.key, DUES.row_of(changed), {"attempts": known.attempts})


def due_reschedule(known: PendingDelivery, changed: PendingDelivery) -> tuple[Write, ...]:
    """Return the writes that give *changed* its own place in the backlog, unless an attempt was counted since."""
    if changed.key == known.key:
        return (due_change(known, changed),)
    return due_delete_as_read(known), due_put(changed)


def due_delete(due: PendingDelivery) -> Delete:
    """Return the write that takes a delivery out of its backlog, whatever its row says by now."""
    return Delete(due.key)


def due_delete_as_read(due: PendingDelivery) -> Delete:
    """Return the write that takes a delivery out of its backlog, unless an attempt was counted since it was read."""
    return Delete(due.key, {"attempts": due.attempts})


NOT_ACKNOWLEDGED = "not acknowledged in time"


@dataclass(frozen=True, slots=True)
class Pulled:
    """*attempts* pulls of an entry came to nothing, the last of them at *last_attempt_at*, as *last_outcome* says."""

    attempts: int
    last_attempt_at: int
    last_outcome: str

    def entry(self, state: EntryState) -> Entry:
        """Return the entry in *state* after these pulls."""
        return Entry(state, self.attempts, self.last_attempt_at, self.last_outcome)


PULLED = Kind[Pulled](
    pulled_key,
    lambda pulled: {
        "attempts": pulled.attempts,
        "last_attempt_at": pulled.last_attempt_at,
        "last_outcome": pulled.last_outcome,
    },
    lambda row: Pulled(row["attempts"], row["last_attempt_at"], row["last_outcome"]),
)


def last_pull(known: Pulled | None, pulls: int, now: int) -> Pulled:
    """Return what is known of the last of *pulls* that came to nothing; perhaps nothing was written of it by *now*.

    >>> last_pull(Pulled(1, 5, "returned"), 1, 9)
    Pulled(attempts=1, last_attempt_at=5, last_outcome='returned')
    >>> last_pull(Pulled(1, 5, "returned"), 2, 9)
    Pulled(attempts=2, last_attempt_at=9, last_outcome='not acknowledged in time')
    """
    if known is None or known.attempts < pulls:  # The last one was not written down.
        return Pulled(pulls, now, NOT_ACKNOWLEDGED)
    return known


def pulled_put(topic: str, message_id: str, ordinal: int, pulled: Pulled, expires_at: int) -> Put:
    """Return the write of what is known of an entry."""
    row = {**PULLED.row_of(pulled), "ttl": ttl_after(expires_at)}
    return Put(pulled_key(topic, message_id, ordinal), row)


def ordinal_pulled(row: Row) -> int:
    """Return of whose entry a row tells."""
    return int(cast("str", row["sk"]))


UNTOLD = frozenset({"history"})
"""The attributes that no archive is told of."""
