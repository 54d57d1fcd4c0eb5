"""Rows of lanes that are not active and of the deliveries they owe (architecture §2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast
from zlib import crc32

from tagcast.model import ID_SEQUENCE_BITS, Entry, EntryState, LaneState
from tagcast.ports import Expectation, Key, Row, Update, Value
from tagcast.rows.ended_entries import bounded
from tagcast.rows.keys import due_key, lane_key
from tagcast.rows.message import GARBAGE_S, WAKE_SHARDS

PLACES = 16
"""A batch has fewer places than this, so that positions of later batches sort behind it."""
JOINED_MAX, ID_BYTES = 64, 8
"""So many of the messages that joined a backlog last are named in the lane's row, which stays below a kilobyte."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane that is not active.

    *generation* is new at every blocking, resume and continuation, so that older workers are fenced off;
    *appended* counts the batches that joined the backlog; *claim* counts the workers that took the head.
    *wake_at* is when somebody has to look at the lane at the latest (None: never). *joined* names, packed, what joined
    the backlog last: a batch that comes twice joins once.
    """

    topic: str
    subscription_id: str
    state: LaneState
    generation: str
    appended: int
    claim: int
    next_attempt_at: int | None
    wake_at: int | None
    ttl: int | None = None
    joined: bytes = b""

    @property
    def key(self) -> Key:
        """Return the key of the lane's row."""
        return lane_key(self.topic, self.subscription_id)

    def holds(self, message_id: str) -> bool:
        """Say whether a message is known to have joined this backlog: its delivery stands in it, or came to its end."""
        name = int(message_id).to_bytes(ID_BYTES)
        return any(name == self.joined[at : at + ID_BYTES] for at in range(0, len(self.joined), ID_BYTES))

    def may_hold(self, message_id: str) -> bool:
        """Say whether a message may have joined this backlog: it did, or not all that ever did are named."""
        named_all = len(self.joined) < JOINED_MAX * ID_BYTES and (bool(self.joined) or not self.appended)
        return not named_all or self.holds(message_id)

    def same_generation(self) -> Expectation:
        """Return the condition that nobody blocked, resumed or skipped since this was read; batches may have joined."""
        return {"state": self.state.value, "generation": self.generation}

    def as_read(self) -> Expectation:
        """Return the condition that nobody blocked, appended, claimed or resumed since this was read."""
        return {
            "state": self.state.value,
            "generation": self.generation,
            "appended": self.appended,
            "claim": self.claim,
        }


def lane_row(lane: Lane) -> Row:
    """Return the row of a lane."""
    row: dict[str, Value] = {
        "topic": lane.topic,
        "state": lane.state.value,
        "generation": lane.generation,
        "appended": lane.appended,
        "claim": lane.claim,
    }
    if lane.next_attempt_at is not None:
        row["next_attempt_at"] = lane.next_attempt_at
    if lane.wake_at is not None:
        row["wake_at"] = lane.wake_at
        row["wake_shard"] = str(crc32(lane.subscription_id.encode()) % WAKE_SHARDS)
    if lane.ttl is not None:
        row["ttl"] = lane.ttl
    if lane.joined:
        row["joined"] = lane.joined
    return row


def joined_by(joined: bytes, message_ids: Iterable[str]) -> bytes:
    """Return what *joined* becomes when more messages join a backlog: the last of all of them.

    >>> joined_by(bytes(8), ["1", "2"]).hex(" ", 8)
    '0000000000000000 0000000000000001 0000000000000002'
    """
    names = b"".join(int(message_id).to_bytes(ID_BYTES) for message_id in message_ids)
    return (joined + names)[-JOINED_MAX * ID_BYTES :]


def lane_update(lane: Lane, expect: Expectation, *, claims: bool = False) -> Update:
    """Return the write that brings a lane's row to *lane*, on condition of *expect*.

    Batches may join the backlog meanwhile: ``appended`` and ``joined`` belong to fan-out and stay as they are. So does
    the claim, which only those who take the head raise (*claims*).
    """
    kept = ("appended", "joined") if claims else ("appended", "joined", "claim")
    changes = {name: value for name, value in lane_row(lane).items() if name not in kept}
    asleep = ("wake_at", "wake_shard") if lane.wake_at is None else ()
    return Update(lane.key, changes, asleep, expect)


def lane_of(row: Row) -> Lane:
    """Return the lane in a row."""
    return Lane(
        topic=cast("str", row["topic"]),
        subscription_id=cast("str", row["sk"]),
        state=LaneState(cast("str", row["state"])),
        generation=cast("str", row["generation"]),
        appended=cast("int", row["appended"]),
        claim=cast("int", row["claim"]),
        next_attempt_at=cast("int | None", row.get("next_attempt_at")),
        wake_at=cast("int | None", row.get("wake_at")),
        ttl=cast("int | None", row.get("ttl")),
        joined=cast("bytes", row.get("joined", b"")),
    )


@dataclass(frozen=True, slots=True)
class Due:
    """One owed delivery of a lane that is not active; attempts live here and never in the lane.

    *unjudged* says that the subscription's filter function has yet to be asked; no other row has the attribute.
    *ended* is the end that a push brought and that the message's row does not say yet, because too many write that row:
    such a delivery is never pushed again, and ends in no other way. The release before does not know it, and pushes.
    """

    subscription_id: str
    position: str
    message_id: str
    attempts: int
    expires_at: int
    last_attempt_at: int | None = None
    last_outcome: str | None = None
    unjudged: bool = False
    ended: EntryState | None = None

    @property
    def key(self) -> Key:
        """Return the key of the row."""
        return due_key(self.subscription_id, self.position, self.message_id)

    @property
    def accepted_at(self) -> int:
        """Return when the message was accepted, which its id says."""
        return int(self.message_id) >> ID_SEQUENCE_BITS

    def ending(self, state: EntryState, outcome: str | None = None) -> Entry:
        """Return the entry with which the delivery ends without another push: in *state*, unless a push ended it.

        >>> Due("t.1", "0", "7", 2, 9, 5, "http 500").ending(EntryState.CANCELLED, "skipped").last_outcome
        'skipped'
        >>> Due("t.1", "0", "7", 2, 9, 5, "http 200", ended=EntryState.DELIVERED).ending(EntryState.CANCELLED).state
        <EntryState.DELIVERED: 'delivered'>
        """
        if self.ended is not None:
            return Entry(self.ended, self.attempts, self.last_attempt_at, self.last_outcome)
        return Entry(state, self.attempts, self.last_attempt_at, outcome or self.last_outcome)

    def marked(self, entry: Entry) -> Due:
        """Return the row that keeps the end which a push brought."""
        return replace(
            self,
            attempts=entry.attempts,
            last_attempt_at=entry.last_attempt_at,
            last_outcome=entry.last_outcome,
            ended=entry.state,
        )

    def as_last_seen(self, entry: Entry) -> Entry:
        """Return *entry*; if it ended without another attempt, with what is known here of the last one."""
        if entry.last_attempt_at is not None:
            return entry
        return replace(
            entry, last_attempt_at=self.last_attempt_at, last_outcome=entry.last_outcome or self.last_outcome
        )


def position(appended: int, place: int) -> str:
    """Return where a delivery stands in its backlog.

    >>> position(3, 2) < position(3, 10) < position(4, 0)
    True
    """
    assert 0 <= place < PLACES
    return f"{appended * PLACES + place:020d}"


def due_row(due: Due) -> Row:
    """Return the row of an owed delivery."""
    row: dict[str, Value] = {
        "attempts": due.attempts,
        "expires_at": due.expires_at,
        "ttl": due.expires_at // 1000 + GARBAGE_S,
    }
    if due.last_attempt_at is not None:
        row["last_attempt_at"] = due.last_attempt_at
    if due.last_outcome is not None:
        row["last_outcome"] = bounded(due.last_outcome)
    if due.unjudged:
        row["unjudged"] = 1
    if due.ended is not None:
        row["ended"] = due.ended.value
    return row


def due_of(row: Row) -> Due:
    """Return the owed delivery in a row."""
    place, _, message_id = cast("str", row["sk"]).partition("#")
    return Due(
        subscription_id=cast("str", row["pk"]).removeprefix("DUE#"),
        position=place,
        message_id=message_id,
        attempts=cast("int", row["attempts"]),
        expires_at=cast("int", row["expires_at"]),
        last_attempt_at=cast("int | None", row.get("last_attempt_at")),
        last_outcome=cast("str | None", row.get("last_outcome")),
        unjudged="unjudged" in row,
        ended=EntryState(cast("str", row["ended"])) if "ended" in row else None,
    )
