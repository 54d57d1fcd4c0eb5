"""Queue entries for the first round (docs/protocol.md). Publisher and relay build the same entries from a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from tagcast.model import Ordering
from tagcast.ports import QueueEntry
from tagcast.queues import PACK_MAX, Audience, own_group, queue_group
from tagcast.rows.message import MessageRow, memberships

APART_MAX = 9
"""At most 9 unordered messages share an entry. Ten such entries, a batch of fan-out, make one slice."""


def entries_of(ordering: Ordering, row: MessageRow) -> tuple[QueueEntry, ...]:
    """Return the queue entries in a message's row.

    If a request has several messages, the row of the last message has the entries of all, and the other rows have none.
    """
    return _own_entries(ordering, row) if row.is_alone else row.packs


def pack_entries(ordering: Ordering, rows: Sequence[MessageRow]) -> tuple[QueueEntry, ...]:
    """Return the entries of one request's messages. Ordered messages of one message group share entries.

    Unordered messages with the same audience share entries, too. A wide message has entries of its own, and separates
    the messages before it from those after it.
    """
    if len(rows) == 1:
        return _own_entries(ordering, rows[0])
    entries: list[QueueEntry] = []
    for is_wide, some in groupby(rows, key=lambda row: row.is_wide):
        if is_wide:
            entries += [entry for row in some for entry in _own_entries(ordering, row)]
        else:
            entries += _together(ordering, some)
    return tuple(entries)


def _together(ordering: Ordering, rows: Iterable[MessageRow]) -> list[QueueEntry]:
    together: dict[tuple[str, Audience], list[QueueEntry]] = {}
    for row in rows:
        for entry in _own_entries(ordering, row):
            kind = (entry.group, Audience.IN_ORDER) if entry.has_order else ("", entry.audience)
            together.setdefault(kind, []).append(entry)
    packs: list[QueueEntry] = []
    for (group, audience), entries in together.items():
        most = PACK_MAX if group else APART_MAX
        packs += [_pack(audience, entries[start : start + most]) for start in range(0, len(entries), most)]
    return packs


def _own_entries(ordering: Ordering, row: MessageRow) -> tuple[QueueEntry, ...]:
    """Return the entries of one message: one entry for all subscriptions, or an ordered and an unordered entry."""
    if row.is_wide:
        return tuple(_of_sections(ordering, row))
    message = row.message
    topic, message_id = message.topic, message.message_id
    group = queue_group(ordering, topic, message_id, message.ordering_key)
    if row.in_order == row.map.matched or group == message_id:
        return (QueueEntry(topic, message_id, group),)
    if not row.in_order:
        return (QueueEntry(topic, message_id, message_id),)
    in_order = QueueEntry(topic, message_id, group, Audience.IN_ORDER)
    return (in_order, QueueEntry(topic, message_id, message_id, Audience.APART))


def _of_sections(ordering: Ordering, row: MessageRow) -> Iterator[QueueEntry]:
    """Yield the entries of a wide message: for each section an ordered entry, an unordered entry, or both.

    The ordered entries of all sections are in one message group. Each unordered entry has a message group of its own.
    """
    message, first = row.message, row.message.message_id
    group = queue_group(ordering, message.topic, first, message.ordering_key)
    for section, members in enumerate(memberships(row)):
        apart = QueueEntry(message.topic, first, own_group(first, section), section=section)
        waiting = members & row.in_order
        if group == first or not waiting:
            yield apart
            continue
        whole = waiting == members
        yield replace(apart, group=group, audience=Audience.EVERYBODY if whole else Audience.IN_ORDER)
        if not whole:
            yield replace(apart, audience=Audience.APART)


def _pack(audience: Audience, entries: list[QueueEntry]) -> QueueEntry:
    first, *others = entries
    ids = tuple(entry.message_id for entry in others)
    return QueueEntry(first.topic, first.message_id, first.group, audience, ids) if ids else first
