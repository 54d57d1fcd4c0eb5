"""The writes of a message's row: as it is accepted, and from one state map to the next.

See docs/architecture.md, Invariants, 2 and 3.
"""

from __future__ import annotations

from tagcast.rows.keys import message_key, retained_key
from tagcast.rows.message import GARBAGE_S, MessageRow, map_attributes, message_row
from tagcast.tables import ABSENT, Delete, Put, Row, Update, Write

CONTENT_ATTRIBUTES = ("body",)


def accepted_put(row: MessageRow) -> Put:
    """Return the write of a message that is accepted, unless there is one under its id."""
    return Put(message_key(row.message.topic, row.message.message_id), message_row(row), {"pk": ABSENT})


def map_writes(before: MessageRow, after: MessageRow) -> tuple[Write, ...]:
    """Return the writes that bring a message's row from *before* to *after*.

    See docs/architecture.md, Invariants, 2 and 3.
    """
    message = after.message
    key = message_key(message.topic, message.message_id)
    changes = map_attributes(after)
    gone = ("handed",) if before.map.handed and not after.map.handed else ()
    gone = (*gone, "over") if before.map.over and not after.map.over else gone
    update = Update(key, changes, (*map_removals(after, changes), *gone), {"version": before.version})
    retained = retained_key(message.topic, message.message_id)
    if after.map.is_retained and not before.map.is_retained:
        ttl = message.expires_at // 1000 + GARBAGE_S
        listed = {"expires_at": message.expires_at, "accepted_at": message.accepted_at, "ttl": ttl}
        return (update, Put(retained, listed))
    if before.map.is_retained and not after.map.is_retained:
        return (update, Delete(retained))
    return (update,)


def map_removals(value: MessageRow, attributes: Row) -> tuple[str, ...]:
    """Return what has to go when *attributes*, those of *value*, are written over an older version of its row."""
    gone = () if value.map.owed else ("owed",)
    if value.map.settled:
        gone = (*gone, "ended" if "exceptions" in attributes else "exceptions")
    return gone if value.has_body else (*gone, *CONTENT_ATTRIBUTES)


def body_removal(row: MessageRow) -> Update:
    """Return the write that takes the body of a message that is kept no longer, unless its row changed since."""
    key = message_key(row.message.topic, row.message.message_id)
    return Update(key, {"version": row.version + 1}, (*CONTENT_ATTRIBUTES, "kept"), {"version": row.version})


def retained_delete(row: MessageRow) -> Delete:
    """Return the write that takes a message off the list of what is retained."""
    return Delete(retained_key(row.message.topic, row.message.message_id))
