"""The sections of a wide message's state map: whose entries each of them has, and its row.

A message that matched more than a thousand keeps whom it matched in its own row, as any does, but its map is settled
in sections: each has a row of its own from its first change on. A section without a row is as it was accepted. See
docs/architecture.md, Wide messages.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from dataclasses import replace

from tagcast.model import Draft, Message
from tagcast.rows import ordinals
from tagcast.rows.map_attributes import map_of
from tagcast.rows.message import GARBAGE_S, MessageRow
from tagcast.rows.section import Section
from tagcast.rows.values import number, text
from tagcast.state_map import StateMap
from tagcast.tables import Row


def bounds_of(matched: Collection[int], entries_max: int) -> tuple[int, ...]:
    """Return the first ordinals of the sections, of so many entries each, of all whom a wide message matched.

    >>> bounds_of([9, 1, 4, 7, 8], 2)
    (1, 7, 9)
    """
    return tuple(sorted(matched)[::entries_max])


def section_with(row: MessageRow, ordinal: int) -> int:
    """Return the number of the section of a wide message that has the entry of *ordinal*.

    Late entries are for groups that are younger than all whom the message matched: the last section has them.
    """
    return max(0, bisect_right(row.bounds, ordinal) - 1)


def memberships(row: MessageRow) -> Iterator[frozenset[int]]:
    """Yield whom a wide message matched, section by section."""
    matched = sorted(row.map.matched)
    starts = [bisect_left(matched, bound) for bound in row.bounds]
    for start, end in zip(starts, (*starts[1:], len(matched)), strict=True):
        yield frozenset(matched[start:end])


def unwritten(row: MessageRow, section: int) -> StateMap:
    """Return the map of a section as it was accepted."""
    low, *behind = row.bounds[section : section + 2]
    members = (ordinal for ordinal in row.map.matched if low <= ordinal and not (behind and ordinal >= behind[0]))
    return StateMap.of(members)


def section_of(row: MessageRow, section: int, found: Row | None, tally: Row | None) -> MessageRow:
    """Return a wide message, read as *row*, with the map of one section: *found* and *tally* are its rows, if any."""
    known = unwritten(row, section) if found is None else map_of(found)
    return replace(
        row,
        map=known,
        version=0 if found is None else number(found, "version"),
        histories=_histories(found),
        in_order=None if row.in_order is None else row.in_order & known.matched,
        section=Section(
            number=section,
            count=len(row.bounds),
            ended=ended_in(tally),
            tally_version=0 if tally is None else number(tally, "version"),
            message_version=row.version,
        ),
    )


def section_row_of(found: Row) -> MessageRow:
    """Return one section of a wide message's map with all that its row alone says of the message: no content."""
    topic, message_id = text(found, "topic"), text(found, "message_id")
    accepted_at, expires_at = number(found, "accepted_at"), number(found, "expires_at")
    return MessageRow(
        message=Message(topic, message_id, Draft(b""), accepted_at, expires_at),
        map=map_of(found),
        subscriptions_version=number(found, "subscriptions_version"),
        version=number(found, "version"),
        has_body=False,
        histories=_histories(found),
    )


def section_number(found: Row) -> int:
    """Return which section a row is."""
    return int(str(found["sk"]).partition("#")[2])


def ended_in(tally: Row | None) -> frozenset[int]:
    """Return the sections in which nobody is owed anything."""
    packed = None if tally is None else tally["over"]
    return ordinals.unpack(packed) if isinstance(packed, bytes) else frozenset()


def tally_row(value: MessageRow, ended: frozenset[int]) -> Row:
    """Return the whole row that says which sections have *ended*, after the one that *value* was read with."""
    assert value.section is not None
    ttl = value.message.expires_at // 1000 + GARBAGE_S
    return {"over": ordinals.pack(ended), "version": value.section.tally_version + 1, "ttl": ttl}


def _histories(found: Row | None) -> bytes:
    histories = None if found is None else found.get("histories")
    return histories if isinstance(histories, bytes) else b""
