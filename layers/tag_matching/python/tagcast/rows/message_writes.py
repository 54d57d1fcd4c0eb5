"""The writes of a message's row from one state map to the next.

See docs/protocol.md, Invariants, 2 and 3.
"""

from __future__ import annotations

from dataclasses import replace

from tagcast.model import Topic
from tagcast.rows.keys import message_key, retained_key, section_key, tally_key
from tagcast.rows.listed import RETAINED, Retained
from tagcast.rows.message import (
    BODY_ATTRIBUTES,
    TALLY_ROWS,
    MessageRow,
    Tally,
    bytes_at_end,
    deflated,
    map_attributes,
    message_row,
    ttl_after,
)
from tagcast.tables import ABSENT, Delete, Key, Put, Update, Value, Write

ACCEPTED_BYTES_MAX = 395_000
"""DynamoDB takes 409,600: what comes besides are the entries of a request, and a hundred late ones."""
OTHERS_BYTES_MAX = 110_000
"""More than all takes that is neither the body nor a set of ordinals: the envelope, and entries of a whole map."""


def accepted_put(row: MessageRow) -> Put:
    """Return the write of a message that is accepted, unless there is one under its id."""
    return Put(message_key(*row.names), message_row(_formed(row)), {"pk": ABSENT})


def may_outgrow(topic: Topic, body: bytes) -> bool:
    """Say of any message with such a *body*, before it is matched, whether its row might be too large.

    A set of ordinals takes a byte for each seven bits of every gap, so one more for each 128 at most, or else a bit for
    each ordinal. Two sets are as large as the matched ones: these and the owed, or in a wide message those in order.
    """
    ordinals, members = topic.next_ordinal, topic.subscription_count
    packed = 1 + min(ordinals // 8 + 1, members + ordinals // 128, members * (ordinals.bit_length() // 7 + 1))
    return len(body) + 2 * packed + OTHERS_BYTES_MAX > ACCEPTED_BYTES_MAX


def outgrows(row: MessageRow) -> bool:
    """Say whether the row that :func:`accepted_put` writes, grown as far as ends make it, would be too large."""
    return bytes_at_end(_formed(row)) > ACCEPTED_BYTES_MAX


def _formed(row: MessageRow) -> MessageRow:
    """Return the row with its body in the form in which it is stored."""
    return replace(row, deflated=deflated(row.message.draft.body)) if row.has_body else row


def map_writes(before: MessageRow, after: MessageRow) -> tuple[Write, ...]:
    """Return the writes that bring one section of a map from *before* to *after*."""
    change = _map_write(before, after)
    tally = () if after.section.is_in_message else _tally_writes(before, after)
    message, (was, stays) = after.message, after.map.retained_since(before.map)
    if stays and not was:
        listed = Retained(message.message_id, message.expires_at, message.accepted_at)
        return (change, *tally, Put(_retained_key(after), RETAINED.row_of(listed)))
    if was and not stays:
        return (change, *tally, Delete(_retained_key(after)))
    return (change, *tally)


def lone_update(before: MessageRow, after: MessageRow) -> Update | None:
    """Return the update that is all there is to write; None if there is more."""
    first, *more = map_writes(before, after)
    return first if isinstance(first, Update) and not more else None


def _map_write(before: MessageRow, after: MessageRow) -> Write:
    """Return the write of the row that has the map; that of a section comes to be with its first change."""
    key = message_key(*after.names)
    if not after.section.is_in_message:
        key = section_key(*after.names, after.section.number)
        if before.version == 0:
            return Put(key, message_row(after), {"pk": ABSENT})
    changes = map_attributes(after)
    was = {"owed": before.map.owed, "enqueued": before.map.enqueued, "first_done": before.map.first_round_done}
    was["ttl"] = frozenset() if before.map.owed else before.map.matched
    gone = [name for name, members in was.items() if members and name not in changes]
    gone += BODY_ATTRIBUTES if after.section.is_in_message and not after.has_body else ()
    return Update(key, changes, tuple(gone), {"version": before.version})


def _tally_writes(before: MessageRow, after: MessageRow) -> tuple[Write, ...]:
    """Return what a section's end, or that it is owed anew, changes beside its row.

    With the last section the message's own row comes to its end, and its body goes.
    """
    known = before.section
    ended = known.ended - {known.number} if after.map.owed else known.ended | {known.number}
    if ended == known.ended:
        return ()
    expected = {"version": known.tally_version} if known.tally_version else {"pk": ABSENT}
    expires_at = before.message.expires_at if len(ended) == known.count else None
    row = TALLY_ROWS.row_of(Tally(ended, known.tally_version + 1, expires_at))
    tally = Put(tally_key(*before.names), row, expected)
    if known.count not in (len(ended), len(known.ended)):
        return (tally,)
    owed = len(after.map.owed)
    changes: dict[str, Value] = {"pending": owed, "round": "open" if owed else "done"}
    changes["version"] = known.message_version + 1
    gone = () if after.has_body else BODY_ATTRIBUTES
    if owed:
        gone = (*gone, "ttl")
    else:
        changes["ttl"] = ttl_after(before.message.expires_at)
    return (tally, Update(message_key(*after.names), changes, gone, {"version": known.message_version}))


def removal(row: MessageRow) -> Update | Delete:
    """Return the write for what owes nothing and is still kept or listed: its body goes, or its place in the list.

    With its last entry a message goes off the list of what is retained, so that only an accident leaves one there.
    """
    if not row.is_kept or not row.section.is_in_message:
        return Delete(_retained_key(row))
    changes = {"version": row.version + 1}
    return Update(message_key(*row.names), changes, (*BODY_ATTRIBUTES, "kept"), {"version": row.version})


def _retained_key(row: MessageRow) -> Key:
    section = None if row.section.is_in_message else row.section.number
    return retained_key(*row.names, section)
