"""All writes of a message's rows, each with its condition: accepted, first rounds, ends, late entries, completion.

Each fact about a delivery is a row or attribute that is written once (docs/protocol.md, Invariants, 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tagcast.model import Entry, EntryState
from tagcast.queues import Audience
from tagcast.rows.codec import Codec, key_part, read_part, row_format
from tagcast.rows.due import ATTEMPTED
from tagcast.rows.ended_entries import OUTCOME_BYTES, OUTCOME_BYTES_MAX, shorten_outcomes, to_bytes
from tagcast.rows.keys import end_key, enqueued_key, late_key, message_key, retained_key, round_key
from tagcast.rows.listed import RETAINED, Retained
from tagcast.rows.message import (
    BODY_ATTRIBUTES,
    DONE,
    MESSAGES,
    OPEN,
    MessageRow,
    bytes_at_end,
    prefix_of,
    round_attributes,
    round_in,
    ttl_after,
    with_stored_body,
)
from tagcast.rows.state_map import AddedLater, Round
from tagcast.tables import ABSENT, Absence, Delete, Put, Update, Value, Write

ENDS_MAX = 97
"""At most 97 ends fit into one transaction, in addition to the message and its place in a list."""
END_S = 30 * 86_400
"""Rows of ends outlive the message's own row. Without them the delivery would be pending again."""
ROW_BYTES_MAX = 300_000
"""The most bytes of a row with a round. Outcomes are shortened or dropped to fit."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The message of a separate row (an end, a round or a late entry). The archive needs these fields in each row."""

    topic: str
    message_id: str
    subscriptions_version: int
    accepted_at: int
    expires_at: int

    @classmethod
    def of(cls, row: MessageRow) -> Origin:
        """Return the origin of the message in *row*, the same for all its separate rows."""
        message = row.message
        return cls(*row.names, row.subscriptions_version, message.accepted_at, message.expires_at)


_ORIGINS = Codec(Origin)


def _ttl(value: End | RoundRow | Late) -> dict[str, Value]:
    return {"ttl": value.origin.expires_at // 1000 + END_S}


@dataclass(frozen=True, slots=True)
class End:
    """The end of one delivery in a row of its own.

    A first round stores the ends of its deliveries that have no history. Every other end has a row of its own: an end
    with a history, an end that another worker wrote before the round was closed, and an end after the round.
    """

    origin: Origin
    ordinal: int
    entry: Entry


def _keeps_history(entry: Entry) -> bool:
    """Return whether the attempts of an ended entry are stored. Attempts of delivered entries are not stored."""
    return bool(entry.history) and entry.state is not EntryState.DELIVERED


ENDS = row_format(
    end_key,
    Codec(End, {"origin": _ORIGINS, "entry": Codec(Entry, ATTEMPTED, ("filter_version", "added_at"))}),
    _ttl,
)


@dataclass(frozen=True, slots=True)
class RoundRow:
    """The first round of an audience in a section of a wide message. *round* is None while the round is open.

    *partial* is the number of writes that ended deliveries before the round was closed.
    """

    origin: Origin
    section: int
    audience: Audience
    round: Round | None
    partial: int


def _round_attributes(row: RoundRow) -> dict[str, Value]:
    done = {"round": OPEN} if row.round is None else round_attributes(row.round, row.origin.accepted_at, "")
    return done | _ttl(row)


ROUNDS = row_format(
    round_key,
    Codec(
        RoundRow,
        {
            "origin": _ORIGINS,
            "section": key_part("sk", 1, int),
            "audience": key_part("sk", 2, Audience),
            "round": read_part(lambda row: round_in(row, row["accepted_at"], "")),
        },
    ),
    _round_attributes,
)


@dataclass(frozen=True, slots=True)
class Late:
    """An entry that was added for a group younger than the message."""

    origin: Origin
    ordinal: int
    added: AddedLater


LATE = row_format(late_key, Codec(Late, {"origin": _ORIGINS, "added": Codec(AddedLater)}), _ttl)


def accepted_put(row: MessageRow) -> Put:
    """Return the write that stores an accepted message. The write fails if the topic has a message with this id."""
    return MESSAGES.put(with_stored_body(row), *row.names, expect={"pk": ABSENT})


def end_writes(row: MessageRow, ends: Mapping[int, Entry]) -> tuple[Write, ...]:
    """Return the writes of *ends*, the ended entries by ordinal. They fail if one of the deliveries has an end already.

    Concurrent ends do not conflict after the first round. A delivery may end before its round is closed, if a worker
    moved the delivery to a backlog and then died. Writes of early ends are counted, so that the worker that closes the
    round reads these ends first.
    """
    early = [each for each, its_round in row.rounds.items() if its_round is None and row.of(each) & ends.keys()]
    return (*end_puts(row, ends), *_count_early_ends(row, early))


def end_puts(row: MessageRow, ends: Mapping[int, Entry]) -> list[Put]:
    """Return the writes that store *ends*, the ended entries by ordinal, one row for each.

    Unlike :func:`end_writes`, they do not count ends that are written before the round is closed.
    """
    origin = Origin.of(row)
    stored = {o: entry if _keeps_history(entry) else replace(entry, history=()) for o, entry in ends.items()}
    return [ENDS.put(End(origin, o, entry), *row.names, o, expect={"pk": ABSENT}) for o, entry in stored.items()]


def _count_early_ends(row: MessageRow, early: Iterable[Audience]) -> list[Write]:
    """Return the writes that count one more write of early ends, in the open rounds of the audiences *early*."""
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
    """Return the writes that close the first rounds of *row* for *audiences*. The rounds began at *at* (milliseconds).

    *entries* has the deliveries that ended in these rounds, by ordinal. The *enqueued* deliveries are in the queues of
    their groups, and all others are in backlogs. The writes fail if another worker closed the rounds. If no delivery
    of a narrow message is pending any more, they also delete the body, unless it is kept.
    """
    histories = _with_history(entries)
    pending, within, rounds = row.map.pending - entries.keys(), frozenset[int](), dict[Audience, Round]()
    for each in audiences:
        members = row.of(each)
        its = {ordinal: entry for ordinal, entry in entries.items() if ordinal in members and ordinal not in histories}
        others = [done for done in (*row.rounds.values(), *rounds.values()) if done is not None]
        rounds[each], within = _fit_outcomes(row, others, Round.of(at, its, enqueued & members)), within | members
    beside: list[Write] = [*end_puts(row, histories)] if histories else []
    if (pending & within) - enqueued - row.map.enqueued:
        beside.append(_retained_put(row))
    if row.section is not None:
        return (*(_section_round(row, each, done) for each, done in rounds.items()), *beside)
    changes: dict[str, Value] = {}
    expect: dict[str, Value | Absence] = {"partial": max(row.partial.values())}
    for each, known in row.rounds.items():  # The worker that closes the last round must have read the other one.
        expect[f"{prefix_of(each)}round"] = OPEN if known is None else DONE
    for each, done in rounds.items():
        changes |= round_attributes(done, row.message.accepted_at, prefix_of(each))
    if pending:
        return (Update(message_key(*row.names), changes, (), expect), *beside)
    changes |= {"pending": 0, "ttl": ttl_after(row.message.expires_at)}
    expect["late"] = row.late
    over = Update(message_key(*row.names), changes, _body_of(row), expect)
    return (over, *beside, Delete(retained_key(*row.names))) if may_be_listed(row) else (over, *beside)


def _with_history(entries: Mapping[int, Entry]) -> dict[int, Entry]:
    """Return the entries whose attempts are stored, at most :data:`ENDS_MAX`. Each of them needs a separate row."""
    chosen = [o for o, entry in entries.items() if _keeps_history(entry)]
    return {ordinal: entries[ordinal] for ordinal in chosen[:ENDS_MAX]}


def may_be_listed(row: MessageRow) -> bool:
    """Return whether a message or section may be in the list of retained messages, because of a former backlog.

    It may be in the list if it has a late entry, or if a closed round left a delivery in a backlog.
    """
    closed = [(row.of(each), done) for each, done in row.rounds.items() if done is not None]
    has_late = row.late > 0 and row.section in (None, len(row.bounds) - 1)
    return has_late or any(members - done.entries().keys() - done.enqueued for members, done in closed)


def _section_round(row: MessageRow, audience: Audience, done: Round | None) -> Write:
    """Return the write of a section's round: a new row, or an update of the row that counted early ends.

    Without *done* the round stays open, and counts one more write of early ends.
    """
    assert row.section is not None
    known = row.partial.get(audience, 0)
    whole = RoundRow(Origin.of(row), row.section, audience, done, known + (done is None))
    if not known:
        return ROUNDS.put(whole, *row.names, row.section, audience.value, expect={"pk": ABSENT})
    key = round_key(*row.names, row.section, audience.value)
    return Update(key, ROUNDS.row_of(whole), expect={"partial": known, "round": OPEN})


def lone_update(writes: Sequence[Sequence[Write]]) -> Update | None:
    """Return the update in *writes* if it holds one transaction with one update and nothing else; None otherwise."""
    match writes:
        case [[Update() as update]]:
            return update
    return None


def enqueued_put(row: MessageRow, ordinal: int) -> Put:
    """Return the write that marks a delivery as moved from its backlog to the queue of its group."""
    attributes: dict[str, Value] = {"ordinal": ordinal, "ttl": row.message.expires_at // 1000 + END_S}
    return Put(enqueued_key(*row.names, ordinal), attributes, {"pk": ABSENT})


def late_writes(row: MessageRow, ordinal: int, added: AddedLater) -> tuple[Write, ...]:
    """Return the writes that add a late entry for the group with *ordinal*.

    They fail if the body was deleted, or another late entry was added, after *row* was read.
    """
    late = LATE.put(Late(Origin.of(row), ordinal, added), *row.names, ordinal, expect={"pk": ABSENT})
    changes: dict[str, Value] = {"late": row.late + 1, "pending": 1}
    has_body: dict[str, Value | Absence] = {"kept": 1} if row.is_kept else {"pending": 1}
    pending = Update(message_key(*row.names), changes, ("ttl",), {**has_body, "late": row.late})
    return (late, pending, _retained_put(row))


def completion(row: MessageRow, sections: Iterable[int | None]) -> tuple[Write, ...]:
    """Return the writes that complete a message without pending deliveries.

    They delete the message's rows in the list of retained messages, and the body, unless the body is kept. *sections*
    are the sections in this list; None stands for a narrow message. The first write fails if a late entry was added.
    """
    changes: dict[str, Value] = {"pending": 0, "round": DONE, "ttl": ttl_after(row.message.expires_at)}
    if row.is_split:
        changes["apart_round"] = DONE
    expect: dict[str, Value | Absence] = {"pending": 1, "late": row.late}
    update = Update(message_key(*row.names), changes, _body_of(row), expect)
    return (update, *(Delete(retained_key(*row.names, each)) for each in sections))


def removal(row: MessageRow) -> Update | Delete:
    """Return the write that cleans up after an expired message without pending deliveries.

    If the body was kept until the expiry, the write deletes the body. Otherwise it deletes the message's row in the
    list of retained messages.
    """
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


def _fit_outcomes(row: MessageRow, others: Iterable[Round], done: Round) -> Round:
    """Return *done* with outcomes so short that they fit into the row, together with the closed rounds *others*."""
    found, accepted_at = done, row.message.accepted_at
    if not done.ended:
        return done
    room = ROW_BYTES_MAX
    if not row.is_wide:
        room -= bytes_at_end(row) + sum(len(to_bytes(each.ended, accepted_at)) for each in others)
    for outcome_bytes_max in OUTCOME_BYTES:
        found = replace(done, ended=shorten_outcomes(done.ended, outcome_bytes_max))
        if len(found.ended) * OUTCOME_BYTES_MAX <= room or len(to_bytes(found.ended, accepted_at)) <= room:
            break
    return found
