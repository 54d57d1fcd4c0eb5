"""Which entries bring messages to their first round: publisher and relay make the same ones of the same rows.

See docs/architecture.md, Queue entries.
"""

from __future__ import annotations

from collections.abc import Sequence

from tagcast.model import Ordering
from tagcast.ports import QueueEntry
from tagcast.queues import PACK_MAX, Audience, queue_group
from tagcast.rows.message import MessageRow

APART_MAX = 9
"""So many messages travel together that stand in no order: ten such packs, a batch of fan-out, are served at once."""


def entries_of(ordering: Ordering, row: MessageRow) -> tuple[QueueEntry, ...]:
    """Return the entries that a message's row asks for: its own, or what it carries of the request it came in."""
    return _alone(ordering, row) if row.packs is None else row.packs


def packed(ordering: Ordering, rows: Sequence[MessageRow]) -> tuple[QueueEntry, ...]:
    """Return the entries of messages that came in one request: those of one order together."""
    if len(rows) == 1:
        return _alone(ordering, rows[0])
    together: dict[tuple[str, Audience], list[QueueEntry]] = {}
    for row in rows:
        for entry in _alone(ordering, row):
            kind = (entry.group, Audience.IN_ORDER) if entry.has_order else ("", entry.audience)
            together.setdefault(kind, []).append(entry)
    packs = []
    for (group, audience), entries in together.items():
        most = PACK_MAX if group else APART_MAX
        packs += [_pack(audience, entries[start : start + most]) for start in range(0, len(entries), most)]
    return tuple(packs)


def _alone(ordering: Ordering, row: MessageRow) -> tuple[QueueEntry, ...]:
    """Return the entries of a message by itself: one for all, or one in its order and one apart for all others."""
    message = row.message
    topic, message_id = message.topic, message.message_id
    group = queue_group(ordering, topic, message_id, message.ordering_key)
    if row.in_order is None or group == message_id:
        return (QueueEntry(topic, message_id, group),)
    if not row.is_split:
        return (QueueEntry(topic, message_id, message_id),)
    in_order = QueueEntry(topic, message_id, group, Audience.IN_ORDER)
    return (in_order, QueueEntry(topic, message_id, message_id, Audience.APART))


def _pack(audience: Audience, entries: list[QueueEntry]) -> QueueEntry:
    first, *others = entries
    ids = tuple(entry.message_id for entry in others)
    return QueueEntry(first.topic, first.message_id, first.group, audience, ids) if ids else first
