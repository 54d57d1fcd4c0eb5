"""The one codec between a state map and its attributes in the row of a message.

See docs/architecture.md, The state map in a row. Its ended entries are written by whoever knows how large the row is.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import cast

from tagcast.model import Entry
from tagcast.rows import ordinals
from tagcast.rows.ended_entries import of_bytes, of_text
from tagcast.rows.late_entries import late_of, late_text
from tagcast.rows.message_attributes import MessageAttributes
from tagcast.state_map import StateMap
from tagcast.tables import Row, Value


def progress_attributes(state_map: StateMap) -> dict[str, Value]:
    """Return the attributes of a map without its ended entries; None is for what the row does not have."""
    delivered = sorted(state_map.finishes)
    return {
        "matched": ordinals.pack(state_map.matched),
        "owed": _packed(state_map.owed),
        "handed": _packed(state_map.with_consumer),
        "over": _packed(state_map.first_round_done),
        "late": late_text(state_map.added_later) if state_map.added_later else None,
        "pending": len(state_map.owed),
        "round": "open" if state_map.round_open else "done",
        "round_at": state_map.round_at,
        "finished": _packed(delivered),
        "finishes": struct.pack(f">{len(delivered)}H", *(state_map.finishes[o] for o in delivered)) or None,
    }


def map_of(row: Row) -> StateMap:
    """Return the state map in the row of a message."""
    read = cast("MessageAttributes", row)
    delivered = sorted(_unpacked(read.get("finished")))
    offsets = struct.unpack(f">{len(delivered)}H", read.get("finishes") or b"")
    matched = ordinals.unpack(read["matched"])
    if "bounds" in read:
        return StateMap.of(matched) if read["pending"] else StateMap(matched, frozenset(), round_open=False)
    still, is_open = _unpacked(read.get("owed")), read["round"] == "open"
    return StateMap(
        matched=matched,
        owed=still,
        round_open=is_open,
        round_at=read.get("round_at"),
        finishes=dict(zip(delivered, offsets, strict=True)),
        settled=_ended(read, matched - still - set(delivered)),
        with_consumer=_unpacked(read.get("handed")) & still,
        first_round_done=_unpacked(read.get("over")) & still if is_open else frozenset(),
        added_later=late_of(read["late"]) if "late" in read else {},
    )


def _ended(row: MessageAttributes, ended: frozenset[int]) -> Mapping[int, Entry]:
    """Return the ended entries in a row, whichever form they have."""
    packed = row.get("ended")
    if packed is not None:
        return of_bytes(packed, ended, row["accepted_at"])
    return of_text(row["exceptions"]) if row.get("exceptions") is not None else {}


def _packed(some: Collection[int]) -> bytes | None:
    """Return ordinals packed; None, which no row keeps, when there are none."""
    return ordinals.pack(some) if some else None


def _unpacked(packed: bytes | None) -> frozenset[int]:
    return ordinals.unpack(packed) if packed else frozenset()
