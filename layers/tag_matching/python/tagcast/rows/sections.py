"""The sections of a wide message's state map: whose entries each of them has, and its row.

A message that matched more than a thousand keeps whom it matched in its own row, as any does, but its map is settled
in sections: each has a row of its own from its first change on. A section without a row is as it was accepted. See
docs/protocol.md, Wide messages.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from tagcast.rows import ordinals
from tagcast.rows.declaration import NOT_STORED, Attribute, Declaration
from tagcast.rows.keys import tally_key
from tagcast.rows.map_attributes import map_of
from tagcast.rows.message import TTL_AFTER_EXPIRY, MessageRow, Section
from tagcast.rows.values import number
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
    tallied = Tally(frozenset(), 0) if tally is None else TALLY_ROWS.value_of(tally)
    return replace(
        row,
        map=known,
        version=0 if found is None else number(found, "version"),
        histories=_histories(found),
        in_order=None if row.in_order is None else row.in_order & known.matched,
        section=Section(
            number=section,
            count=len(row.bounds),
            ended=tallied.ended,
            tally_version=tallied.version,
            message_version=row.version,
        ),
    )


def section_number(found: Row) -> int:
    """Return which section a row is."""
    return int(str(found["sk"]).partition("#")[2])


@dataclass(frozen=True, slots=True)
class Tally:
    """In which sections of a message nobody is owed anything any more: they have *ended*."""

    ended: frozenset[int]
    version: int
    expires_at: int = 0


TALLY_ROWS = Declaration(
    Tally,
    tally_key,
    "in which of its sections nobody is owed anything any more",
    "3 days after the expiry",
    "whoever ends the last entry of a section",
    ended=Attribute("ordinals, packed", ordinals.pack, ordinals.unpack, name="over"),
    expires_at=NOT_STORED,
    ttl=TTL_AFTER_EXPIRY,
)


def tally_row(value: MessageRow, ended: frozenset[int]) -> Row:
    """Return the whole row that says which sections have *ended*, after the one that *value* was read with."""
    assert value.section is not None
    return TALLY_ROWS.row_of(Tally(ended, value.section.tally_version + 1, value.message.expires_at))


def _histories(found: Row | None) -> bytes:
    histories = None if found is None else found.get("histories")
    return histories if isinstance(histories, bytes) else b""
