"""The one codec between a state map and its attributes in the row of a message.

See docs/tables.md, The state map in a row. Its ended entries are written by whoever knows how large the row is.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Mapping
from typing import TypedDict, cast

from tagcast.model import Entry
from tagcast.rows import ordinals
from tagcast.rows.declaration import Beside
from tagcast.rows.ended_entries import of_bytes, of_text
from tagcast.state_map import AddedLater, StateMap
from tagcast.tables import Row, Value

LATE_MAX, LATE_BYTES = 100, 48
"""A message gets at most 100 late entries. Each takes at most 48 bytes besides what any owed entry takes."""


_SET, _DEFLATED = Beside("ordinals, packed"), Beside("JSON, deflated")
OF_MAPS = {
    "matched": Beside("ordinals, packed", optional=False),
    **dict.fromkeys(("owed", "handed", "over", "finished"), _SET),
    "late": Beside("JSON"),
    "round": Beside("`open`, `done`", optional=False),
    "round_at": Beside(),
    "finishes": Beside("two bytes each"),
    "exceptions": Beside("JSON"),
    "ended": _DEFLATED,
}
"""The attributes of a state map as they are declared: those of two rows, of which one is written again and again."""
OF_MESSAGES = {**OF_MAPS, "pending": Beside(optional=False)}


class _Attributes(TypedDict, total=False):
    accepted_at: int
    matched: bytes
    pending: int
    round: str
    owed: bytes
    handed: bytes
    over: bytes
    late: str
    round_at: int
    finished: bytes
    finishes: bytes
    exceptions: str
    ended: bytes


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
    read = cast("_Attributes", row)
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


def _ended(row: _Attributes, ended: frozenset[int]) -> Mapping[int, Entry]:
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


def late_text(late: Mapping[int, AddedLater]) -> str:
    """Return late entries as text.

    >>> late_text({7: AddedLater(1_800_000_000_000, 2)}), late_of(late_text({7: AddedLater(5, 2)}))
    ('{"7":[1800000000000,2]}', {7: AddedLater(added_at=5, filter_version=2)})
    """
    return json.dumps({o: [each.added_at, each.filter_version] for o, each in late.items()}, separators=(",", ":"))


def late_of(text: str) -> dict[int, AddedLater]:
    """Return the late entries in a text."""
    return {int(ordinal): AddedLater(*each) for ordinal, each in json.loads(text).items()}
