"""The row of a message as it is accepted, and whether the table takes one that is so large.

See docs/tables.md, The state map in a row.
"""

from __future__ import annotations

from dataclasses import replace

from tagcast.model import Topic
from tagcast.rows.body import deflated
from tagcast.rows.ended_entries import COMPACT_ENTRY_BYTES
from tagcast.rows.keys import message_key
from tagcast.rows.message import KEY_BYTES, MessageRow, message_row
from tagcast.rows.values import row_bytes
from tagcast.tables import ABSENT, Put

ACCEPTED_BYTES_MAX = 395_000
"""DynamoDB takes 409,600: what comes besides are the entries of a request, and a hundred late ones."""
OTHERS_BYTES_MAX = 110_000
"""More than all takes that is neither the body nor sets of who matched: the envelope, and entries of a whole map."""


def accepted_put(row: MessageRow) -> Put:
    """Return the write of a message that is accepted, unless there is one under its id."""
    return Put(message_key(*row.names), message_row(_formed(row)), {"pk": ABSENT})


def may_outgrow(topic: Topic, body: bytes) -> bool:
    """Say of any message with such a *body*, before it is matched, whether its row might be too large.

    A set of ordinals takes a byte for each seven bits of every gap, so one more for each 128 at most, or else a bit for
    each ordinal. Two sets are as large as all who matched: these, and those who are owed it; or in a wide message those
    who keep an order.
    """
    ordinals, members = topic.next_ordinal, topic.subscription_count
    packed = 1 + min(ordinals // 8 + 1, members + ordinals // 128, members * (ordinals.bit_length() // 7 + 1))
    return len(body) + 2 * packed + OTHERS_BYTES_MAX > ACCEPTED_BYTES_MAX


def outgrows(row: MessageRow) -> bool:
    """Say whether the row that :func:`accepted_put` writes, grown as far as ends make it, would be too large."""
    entries = 0 if row.bounds else COMPACT_ENTRY_BYTES * row.map.pending
    return row_bytes(message_row(_formed(row))) + KEY_BYTES + entries > ACCEPTED_BYTES_MAX


def _formed(row: MessageRow) -> MessageRow:
    """Return the row with its body in the form in which it is stored."""
    return replace(row, deflated=deflated(row.message.draft.body)) if row.has_body else row
