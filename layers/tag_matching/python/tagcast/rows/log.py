"""The rows of a message behind the one that accepted it, each of which is put once: rounds, ends, and what came late.

See docs/tables.md, A message's rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tagcast.model import Entry, EntryState
from tagcast.queues import Audience
from tagcast.rows.due import packed_history, unpacked_history
from tagcast.rows.ended_entries import OUTCOME_BYTES, OUTCOME_BYTES_MAX, bounded, shortened, to_bytes
from tagcast.rows.keys import end_key, enqueued_key, late_key, message_key, retained_key, round_key
from tagcast.rows.kind import Attributes, Kind
from tagcast.rows.listed import RETAINED, Retained
from tagcast.rows.message import (
    BODY_ATTRIBUTES,
    DONE,
    MESSAGES,
    OPEN,
    MessageRow,
    bytes_at_end,
    formed,
    prefix_of,
    round_attributes,
    round_in,
    ttl_after,
)
from tagcast.rows.state_map import AddedLater, Round
from tagcast.rows.values import dense
from tagcast.tables import ABSENT, Absence, Delete, Put, Update, Value, Write

ENDS_MAX = 97
"""At most 97 ends go into one transaction, beside the message and its place in a list."""
END_S = 30 * 86_400
"""What ended outlives its message's own row, without which it would be owed again."""
ROW_BYTES_MAX = 300_000
"""The outcomes of a round make no row larger than that."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The message that a row belongs to, as far as the archive has to tell of it."""

    topic: str
    message_id: str
    subscriptions_version: int
    accepted_at: int
    expires_at: int

    @classmethod
    def of(cls, row: MessageRow) -> Origin:
        """Return the origin of rows of a message."""
        message = row.message
        return cls(*row.names, row.subscriptions_version, message.accepted_at, message.expires_at)

    def attributes(self) -> dict[str, Value]:
        """Return what stands of it in each row."""
        return {
            "topic": self.topic,
            "message_id": self.message_id,
            "subscriptions_version": self.subscriptions_version,
            "accepted_at": self.accepted_at,
            "expires_at": self.expires_at,
            "ttl": self.expires_at // 1000 + END_S,
        }


def _origin_in(row: Attributes) -> Origin:
    names = ("topic", "message_id", "subscriptions_version", "accepted_at", "expires_at")
    return Origin(*(row[name] for name in names))


@dataclass(frozen=True, slots=True)
class End:
    """How one delivery ended behind its first round, or before that was written."""

    origin: Origin
    ordinal: int
    entry: Entry


def _is_told(entry: Entry) -> bool:
    """Say whether attempts are remembered of what ended so: of what failed, not of what got through."""
    return bool(entry.history) and entry.state is not EntryState.DELIVERED


def _end_row(end: End) -> dict[str, Value]:
    entry = end.entry
    return end.origin.attributes() | dense(
        {
            "ordinal": end.ordinal,
            "state": entry.state.value,
            "attempts": entry.attempts,
            "last_attempt_at": entry.last_attempt_at,
            "last_outcome": bounded(entry.last_outcome),
            "history": packed_history(entry.history) if _is_told(entry) else None,
        }
    )


def _end_in(row: Attributes) -> End:
    history = unpacked_history(row["history"]) if "history" in row else ()
    last = row.get("last_attempt_at"), row.get("last_outcome")
    entry = Entry(EntryState(row["state"]), row["attempts"], *last, history=history)
    return End(_origin_in(row), row["ordinal"], entry)


ENDS = Kind(end_key, _end_row, _end_in)


@dataclass(frozen=True, slots=True)
class RoundRow:
    """The round of one audience of a section of a wide message; None while only *partial* ends were put before it."""

    origin: Origin
    section: int
    audience: Audience
    round: Round | None
    partial: int


def _round_row(row: RoundRow) -> dict[str, Value]:
    accepted_at = row.origin.accepted_at
    done = {"round": OPEN} if row.round is None else round_attributes(row.round, accepted_at, "")
    return {**row.origin.attributes(), "partial": row.partial, **done}


def _round_in(row: Attributes) -> RoundRow:
    _, section, audience = row["sk"].split("#")
    done = round_in(row, row["accepted_at"], "")
    return RoundRow(_origin_in(row), int(section), Audience(audience), done, row["partial"])


ROUNDS = Kind(round_key, _round_row, _round_in)


@dataclass(frozen=True, slots=True)
class Late:
    """An entry that was added for a group that is younger than the message."""

    origin: Origin
    ordinal: int
    added: AddedLater


def _late_row(late: Late) -> dict[str, Value]:
    added = {"added_at": late.added.added_at, "filter_version": late.added.filter_version}
    return {**late.origin.attributes(), "ordinal": late.ordinal, **added}


def _late_in(row: Attributes) -> Late:
    return Late(_origin_in(row), row["ordinal"], AddedLater(row["added_at"], row["filter_version"]))


LATE = Kind(late_key, _late_row, _late_in)


def accepted_put(row: MessageRow) -> Put:
    """Return the write of a message that is accepted, unless there is one under its id."""
    return MESSAGES.put(formed(row), *row.names, expect={"pk": ABSENT})


def end_writes(row: MessageRow, ends: Mapping[int, Entry]) -> tuple[Write, ...]:
    """Return the writes that end deliveries of what was read as *row*: each once, and beside those that others end.

    A delivery may end before its round is closed, because a copy of its batch put it into a backlog and died. Then that
    is counted, so that the worker that closes the round reads ends before.
    """
    early = [each for each, its_round in row.rounds.items() if its_round is None and row.of(each) & ends.keys()]
    return (*end_puts(row, ends), *_counted(row, early))


def end_puts(row: MessageRow, ends: Mapping[int, Entry]) -> list[Put]:
    """Return the ends of deliveries, as they are put in the transaction that closes their round."""
    origin = Origin.of(row)
    return [ENDS.put(End(origin, o, entry), *row.names, o, expect={"pk": ABSENT}) for o, entry in ends.items()]


def _counted(row: MessageRow, early: Iterable[Audience]) -> list[Write]:
    """Return the writes that count what ends before the rounds of these audiences are closed."""
    if row.section is not None:
        return [_section_round(row, each, None) for each in early]
    expect: dict[str, Value | Absence] = {f"{prefix_of(each)}round": OPEN for each in early}
    if not expect:
        return []
    partial = max(row.partial.values())
    return [Update(message_key(*row.names), {"partial": partial + 1}, expect={**expect, "partial": partial})]


def round_writes(
    row: MessageRow, at: int, audiences: Sequence[Audience], entries: Mapping[int, Entry], enqueued: Set[int]
) -> tuple[Write, ...]:
    """Return the writes that close the rounds of *audiences*, which began *at* then, of what was read as *row*.

    *entries* ended in them, *enqueued* ones lie in the queues of their groups, and all others stand in backlogs. The
    conditions are lost if others closed the rounds. With the last delivery of a narrow message its body goes, unless
    that is kept.
    """
    told = _with_history(entries)
    owed, within, rounds = row.map.owed - entries.keys(), frozenset[int](), dict[Audience, Round]()
    for each in audiences:
        members = row.of(each)
        its = {ordinal: entry for ordinal, entry in entries.items() if ordinal in members and ordinal not in told}
        others = [done for done in (*row.rounds.values(), *rounds.values()) if done is not None]
        rounds[each], within = _shortened(row, others, Round.of(at, its, enqueued & members)), within | members
    beside: list[Write] = [*end_puts(row, told)] if told else []
    if (owed & within) - enqueued - row.map.enqueued:
        beside.append(_retained_put(row))
    if row.section is not None:
        return (*(_section_round(row, each, done) for each, done in rounds.items()), *beside)
    changes: dict[str, Value] = {}
    expect: dict[str, Value | Absence] = {"partial": max(row.partial.values())}
    for each, known in row.rounds.items():  # Of two, the worker that closes the last one has to know it.
        expect[f"{prefix_of(each)}round"] = OPEN if known is None else DONE
    for each, done in rounds.items():
        changes |= round_attributes(done, row.message.accepted_at, prefix_of(each))
    if owed:
        return (Update(message_key(*row.names), changes, (), expect), *beside)
    changes |= {"pending": 0, "ttl": ttl_after(row.message.expires_at)}
    expect["late"] = row.late
    over = Update(message_key(*row.names), changes, _body_of(row), expect)
    return (over, *beside, Delete(retained_key(*row.names))) if may_be_listed(row) else (over, *beside)


def _with_history(entries: Mapping[int, Entry]) -> dict[int, Entry]:
    """Return those that failed with remembered attempts, which only a row of their own has room for."""
    told = [o for o, entry in entries.items() if _is_told(entry)]
    return {ordinal: entries[ordinal] for ordinal in told[:ENDS_MAX]}


def may_be_listed(row: MessageRow) -> bool:
    """Say whether a message or section may stand in the list of what is retained: was any of it in a backlog?"""
    closed = [(row.of(each), done) for each, done in row.rounds.items() if done is not None]
    has_late = row.late > 0 and row.section in (None, len(row.bounds) - 1)
    return has_late or any(members - done.entries().keys() - done.enqueued for members, done in closed)


def _section_round(row: MessageRow, audience: Audience, done: Round | None) -> Write:
    """Return the write of the round of a section: a row, or over the one that counts what ended before it."""
    assert row.section is not None
    known = row.partial.get(audience, 0)
    whole = RoundRow(Origin.of(row), row.section, audience, done, known + (done is None))
    if not known:
        return ROUNDS.put(whole, *row.names, row.section, audience.value, expect={"pk": ABSENT})
    key = round_key(*row.names, row.section, audience.value)
    return Update(key, ROUNDS.row_of(whole), expect={"partial": known, "round": OPEN})


def lone_update(writes: Sequence[Sequence[Write]]) -> Update | None:
    """Return the update that is all there is to write; None if there is more."""
    match writes:
        case [[Update() as update]]:
            return update
    return None


def enqueued_put(row: MessageRow, ordinal: int) -> Put:
    """Return the write that says that a delivery left its backlog for the queue of its group."""
    attributes: dict[str, Value] = {"ordinal": ordinal, "ttl": row.message.expires_at // 1000 + END_S}
    return Put(enqueued_key(*row.names, ordinal), attributes, {"pk": ABSENT})


def late_writes(row: MessageRow, ordinal: int, added: AddedLater) -> tuple[Write, ...]:
    """Return the writes that add an entry to a message that has its body: not if that went, or another came first."""
    late = LATE.put(Late(Origin.of(row), ordinal, added), *row.names, ordinal, expect={"pk": ABSENT})
    changes: dict[str, Value] = {"late": row.late + 1, "pending": 1}
    has_body: dict[str, Value | Absence] = {"kept": 1} if row.is_kept else {"pending": 1}
    owed = Update(message_key(*row.names), changes, ("ttl",), {**has_body, "late": row.late})
    return (late, owed, _retained_put(row))


def completion(row: MessageRow, sections: Iterable[int | None]) -> tuple[Write, ...]:
    """Return the writes for a message of which nothing is owed any more: it leaves its lists, and its body goes.

    *sections* are those that are listed as retained; None stands for a narrow message. A late entry that came meanwhile
    lets the first of these writes fail.
    """
    changes: dict[str, Value] = {"pending": 0, "round": DONE, "ttl": ttl_after(row.message.expires_at)}
    if row.is_split:
        changes["apart_round"] = DONE
    expect: dict[str, Value | Absence] = {"pending": 1, "late": row.late}
    update = Update(message_key(*row.names), changes, _body_of(row), expect)
    return (update, *(Delete(retained_key(*row.names, each)) for each in sections))


def removal(row: MessageRow) -> Update | Delete:
    """Return the write for what owes nothing and is still kept or listed: its body goes, or its place in the list."""
    if not row.is_kept:
        return Delete(retained_key(*row.names, row.section))
    expect: dict[str, Value | Absence] = {"kept": 1, "late": row.late, "pending": 0}
    return Update(message_key(*row.names), {}, (*BODY_ATTRIBUTES, "kept"), expect)


def _body_of(row: MessageRow) -> tuple[str, ...]:
    return () if row.is_kept else BODY_ATTRIBUTES


def _retained_put(row: MessageRow) -> Put:
    message = row.message
    listed = Retained(message.message_id, message.expires_at, message.accepted_at)
    return Put(retained_key(*row.names, row.section), RETAINED.row_of(listed))


def _shortened(row: MessageRow, others: Iterable[Round], done: Round) -> Round:
    """Return a round with its outcomes as long as the row has room for, beside the *others* of a narrow message."""
    found, accepted_at = done, row.message.accepted_at
    if not done.ended:
        return done
    room = ROW_BYTES_MAX
    if not row.is_wide:
        room -= bytes_at_end(row) + sum(len(to_bytes(each.ended, accepted_at)) for each in others)
    for outcome_bytes_max in OUTCOME_BYTES:
        found = replace(done, ended=shortened(done.ended, outcome_bytes_max))
        if len(found.ended) * OUTCOME_BYTES_MAX <= room or len(to_bytes(found.ended, accepted_at)) <= room:
            break
    return found
