"""The one codec between messages with their state maps and their rows.

See docs/tables.md, The state map in a row.
"""

from __future__ import annotations

import json
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, cast

from tagcast.model import BODY_BYTES_MAX, Draft, Entry, Message
from tagcast.queues import Audience, QueueEntry, own_group
from tagcast.rows import ordinals
from tagcast.rows.declaration import NOT_STORED, Attribute, Beside, Declaration, Fields, From, Written, attribute
from tagcast.rows.ended_entries import (
    COMPACT_ENTRY_BYTES,
    OUTCOME_BYTES,
    of_bytes,
    of_text,
    shortened,
    text_bytes_at_most,
    to_bytes,
    to_text,
)
from tagcast.rows.keys import message_key, section_key, tally_key
from tagcast.rows.values import dense, number, row_bytes, text
from tagcast.state_map import AddedLater, StateMap
from tagcast.tables import Row, Value
from tagcast.trace_context import trace_in

_NONE = zlib.compress(b"[]")


def packs_bytes(packs: Sequence[QueueEntry]) -> bytes:
    """Return entries of one topic deflated, as a row keeps them: the ids of a request have most digits in common.

    Entries for sections of one message are kept together, as a set of numbers.

    >>> ids = [f"{7 * 10**18 + each:020d}" for each in range(96)]
    >>> len(packs_bytes([QueueEntry("t", ids[0], "g", Audience.IN_ORDER, tuple(ids[1:]))])) < 400
    True
    >>> len(packs_bytes([QueueEntry("t", each, "g", section=number) for each in ids for number in range(100)])) < 1_200
    True
    """
    if not packs:
        return _NONE
    said: list[Any] = []
    sections: dict[tuple[str, str, str], list[int]] = {}
    for entry in packs:
        if entry.section is None:
            said.append((entry.group, entry.audience.value, *entry.message_ids))
            continue
        key = (entry.group if entry.has_order else "", entry.audience.value, entry.message_id)
        if key not in sections:
            said.append(key)
        sections.setdefault(key, []).append(entry.section)
    return zlib.compress(
        json.dumps([_section_pack(each, sections) if each in sections else each for each in said]).encode()
    )


def _section_pack(key: tuple[str, str, str], sections: dict[tuple[str, str, str], list[int]]) -> dict[str, str]:
    group, audience, message_id = key
    packed = ordinals.pack(sections[key]).hex()
    return {"group": group, "audience": audience, "message_id": message_id, "sections": packed}


def packs_of(packs: bytes, topic: str) -> tuple[QueueEntry, ...]:
    """Return the entries that :func:`packs_bytes` was given."""
    return tuple(entry for each in json.loads(zlib.decompress(packs)) for entry in _pack_entries(each, topic))


def _pack_entries(said: Any, topic: str) -> Iterator[QueueEntry]:
    if isinstance(said, list):
        group, audience, first, *others = said
        yield QueueEntry(topic, first, group, Audience(audience), tuple(others))
        return
    message_id, audience = said["message_id"], Audience(said["audience"])
    for section in sorted(ordinals.unpack(bytes.fromhex(said["sections"]))):
        group = said["group"] or own_group(message_id, section)
        yield QueueEntry(topic, message_id, group, audience, section=section)


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


BODY_ATTRIBUTES = ("body", "deflated")
"""A row has one of them, or none when its message has no body any more."""
DEFLATED_FROM_BYTES, SAVED_BYTES_MIN = 256, 128
"""Shorter bodies are not deflated, nor those of which that saves less: an eighth of what a write is billed by."""


def deflated(body: bytes) -> bytes | None:
    """Return a body as zlib deflates it, or None where it is to stay as it is.

    >>> deflated(b"x" * 255), len(deflated(b"x" * 1024) or b"")
    (None, 17)
    """
    if len(body) < DEFLATED_FROM_BYTES:
        return None
    packed = zlib.compress(body)
    return packed if len(packed) <= len(body) - SAVED_BYTES_MIN else None


def inflated(packed: bytes) -> bytes:
    """Return the body that :func:`deflated` was given.

    No more than the largest body is inflated, whatever stands in the row: only this service writes it, but a few bytes
    that somebody else put there could fill the memory of every function that reads them. Raises zlib.error of what
    holds more, or is cut off.

    >>> inflated(zlib.compress(b"x" * 300)) == b"x" * 300
    True
    """
    stream = zlib.decompressobj()
    body = stream.decompress(packed, BODY_BYTES_MAX + 1)
    if len(body) > BODY_BYTES_MAX or not stream.eof:
        raise zlib.error("not one whole body")
    return body


GARBAGE_S = 3 * 86_400
TOMBSTONE_S = 86_400 + 4 * 86_400 + GARBAGE_S
TTL_AFTER_EXPIRY = Written(f"{{}} // 1000 + {GARBAGE_S}", "expires_at")
"""The time to live of what goes so long after the expiry of its message."""
FILTER_ERROR_NAMES_MAX = 100
TEXT_ROW_BYTES_MAX, ROW_BYTES_MAX = 270_000, 300_000
"""A row keeps its ended entries as text up to the first size, and their outcomes up to the second.

So outcomes make no row larger than that, a message's or a section's. What was accepted may be: 256 KiB of body, 16 KiB
of properties, and who matched. What is still owed is counted as if it had ended, so that an entry that has ended never
has to change to make room: only those that end later are shortened.
"""
SET_BYTES, FINISH_BYTES, MAP_BYTES, KEY_BYTES = 4, 2, 200, 128
"""At most a member of a set, an offset, names and numbers of a map, a message's key."""


@dataclass(frozen=True, slots=True)
class Section:
    """Which section of a wide message's map a row is, and what was read of the message and its other sections.

    *ended* are those in which nobody is owed anything, as the tally says in its *tally_version*, 0 before there is one;
    *message_version* is that of the message's own row.
    """

    number: int
    count: int
    ended: frozenset[int]
    tally_version: int
    message_version: int

    @property
    def is_beside_open(self) -> bool:
        """Say whether somebody is owed the message in another section."""
        return len(self.ended | {self.number}) < self.count


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message with its state map, as one row; *version* is raised by every write.

    *in_order* are those of whom it matched who keep an order; None says that all wait for its turn, whoever keeps one.
    *packs* are the entries of the request that it came in, in the row of the last message, and none in the others; None
    says that it came alone.
    *is_kept*: its body stays to the end of its life, whoever is owed it. *deflated* is how its row has it, or None: as
    it is.
    *bounds* are the first ordinals of the sections in which the map of a wide message is kept; none where it stands in
    the message's own row. The *map* and the *version* of a wide message are those of one *section*; where that is None,
    they are of its own row, which says whom it matched, and whether anybody is owed it still.
    """

    message: Message
    map: StateMap
    subscriptions_version: int
    version: int
    filter_errors: tuple[str, ...] = ()
    filter_error_count: int = 0
    has_body: bool = True
    histories: bytes = b""
    in_order: frozenset[int] | None = None
    packs: tuple[QueueEntry, ...] | None = None
    is_kept: bool = False
    bounds: tuple[int, ...] = ()
    section: Section | None = None
    deflated: bytes | None = field(default=None, repr=False)

    @property
    def names(self) -> tuple[str, str]:
        """Return the names of topic and message."""
        return self.message.topic, self.message.message_id

    @property
    def is_split(self) -> bool:
        """Say whether some of those whom it matched wait for its turn and others do not."""
        return bool(self.in_order)

    def of(self, audience: Audience) -> frozenset[int]:
        """Return whom of those that it matched an entry of the queue is about."""
        matched, in_order = self.map.matched, self.in_order
        match audience:
            case Audience.EVERYBODY:
                return matched
            case Audience.IN_ORDER:
                return matched if in_order is None else in_order
            case Audience.APART:
                return frozenset() if in_order is None else matched - in_order

    def adding(self, ordinal: int, added: AddedLater) -> MessageRow:
        """Return the row with an entry more, for a group that is younger than the message."""
        return replace(self, map=self.map.adding(ordinal, added), version=self.version + 1)

    def settled(
        self,
        entries: Mapping[int, Entry],
        *,
        round_at: int | None = None,
        served: Set[int] | None = None,
        with_consumer: Set[int] = frozenset(),
    ) -> MessageRow:
        """Return the row after *entries* became terminal; the body goes with the last of them, unless it is kept.

        Their outcomes are kept as far as the row has room; what ended before stays as it is.
        """
        row = self
        for outcome_bytes_max in OUTCOME_BYTES:
            ended = shortened(entries, outcome_bytes_max)
            after = self.map.settle(ended, round_at=round_at, served=served, with_consumer=with_consumer)
            stays = self.is_kept or after.owed or (self.section is not None and self.section.is_beside_open)
            has_body = self.has_body and bool(stays)
            row = replace(self, map=after, version=self.version + 1, has_body=has_body)
            if not after.settled or is_light(row) or _fits(row):
                break
        return row


def _body_in(row: Row) -> bytes:
    deflated = row.get("deflated")
    return inflated(cast("bytes", deflated)) if deflated is not None else cast("bytes", row.get("body") or b"")


def _body_of(value: MessageRow) -> bytes | None:
    return value.message.draft.body if value.has_body and value.deflated is None else None


def _deflated_of(value: MessageRow) -> bytes | None:
    return value.deflated if value.has_body else None


def _unordered(value: MessageRow) -> int | None:
    return 1 if value.in_order is not None and not value.in_order else None


def _in_order(row: Row) -> frozenset[int] | None:
    if "in_order" in row:
        return ordinals.unpack(cast("bytes", row["in_order"]))
    return frozenset() if "unordered" in row else None


def _packs(row: Row) -> tuple[QueueEntry, ...]:
    return packs_of(cast("bytes", row["packs"]), text(row, "topic"))


def _bounds(packed: bytes) -> tuple[int, ...]:
    return tuple(sorted(ordinals.unpack(packed)))


_VERSION = From("row['version']", Beside(optional=False))
_HISTORIES = From("row.get('histories', b'')", Beside("JSON, deflated"))
_TTL = Written(f"{{}} // 1000 + {GARBAGE_S}", "message.expires_at", kind="seconds")
MESSAGES = Declaration(
    MessageRow,
    message_key,
    "a message with its state map, later its receipt",
    "3 days after its expiry",
    "publish; then fan_out, retry, pull, manage (skip), sweep",
    message=Fields(
        draft=Fields(
            body=From(_body_in),
            is_text=Attribute("0, 1", "int({})", bool),
            properties=Attribute("texts by name", "dict({})", default={}),
            trace=Attribute("text", "{}.text", trace_in, default=None),
        ),
    ),
    map=From(map_of),
    version=_VERSION,
    filter_errors=Attribute("texts", f"list({{}}[:{FILTER_ERROR_NAMES_MAX}])", tuple, default=()),
    filter_error_count=attribute(default=0),
    has_body=From("'body' in row or 'deflated' in row"),
    histories=_HISTORIES,
    in_order=From(_in_order, Attribute("ordinals, packed", ordinals.pack, default=frozenset())),
    unordered=Written(_unordered, kind="1", optional=True),
    packs=From(_packs, Attribute("JSON, deflated", packs_bytes, default=None)),
    is_kept=attribute(named="kept"),
    bounds=Attribute("ordinals, packed", ordinals.pack, _bounds, default=()),
    section=NOT_STORED,
    body=Written(_body_of, kind="bytes", optional=True),
    deflated=From("row.get('deflated')", Written(_deflated_of, kind="bytes, deflated", optional=True)),
    ttl=_TTL,
    **OF_MESSAGES,
)
SECTIONS = Declaration(
    MessageRow,
    section_key,
    "one section of the state map of a wide message, from its first change on",
    "3 days after the expiry",
    "fan_out, retry, pull, manage (skip), sweep",
    message=Fields(draft=From(lambda row: Draft(b"")), replay_of=NOT_STORED),
    map=From(map_of),
    version=_VERSION,
    has_body=From("False"),
    histories=_HISTORIES,
    **dict.fromkeys(
        ("filter_errors", "filter_error_count", "in_order", "packs", "is_kept", "bounds", "section", "deflated"),
        NOT_STORED,
    ),
    ttl=_TTL,
    **OF_MAPS,
)


def message_row(value: MessageRow) -> Row:
    """Return the whole row of a message as it is accepted."""
    return {**_envelope(value), **map_attributes(value)}


def _envelope(value: MessageRow) -> dict[str, Value]:
    """Return the attributes that stay, and the body; a section knows its message by name."""
    return (MESSAGES if value.section is None else SECTIONS).row_of(value)


def map_attributes(value: MessageRow) -> dict[str, Value]:
    """Return the attributes that change while a message is delivered."""
    attributes, ended = _progress(value), value.map.settled
    if not ended:
        return attributes
    exceptions = to_text(ended)
    if is_light(value) or _reserved_bytes(value, attributes) + len(exceptions.encode()) <= TEXT_ROW_BYTES_MAX:
        return {**attributes, "exceptions": exceptions}
    return {**attributes, "ended": to_bytes(ended, value.message.accepted_at)}


def _progress(value: MessageRow) -> dict[str, Value]:
    """Return the attributes of the map without its ended entries.

    The row of a wide message says of all who matched that they are owed; a section's is not to be found by a search.
    """
    left_out = {"pending": None} if value.section is not None else {"owed": None} if value.bounds else {}
    progress = {**progress_attributes(value.map), **left_out}
    return dense({**progress, "version": value.version, "histories": value.histories or None})


def is_light(value: MessageRow) -> bool:
    """Say, without making the map's attributes, whether the row is small enough for text; most rows are."""
    state_map = value.map
    members = 4 * SET_BYTES * len(state_map.matched) + FINISH_BYTES * len(state_map.finishes)
    members += LATE_BYTES * len(state_map.added_later)
    at_most = members + MAP_BYTES + text_bytes_at_most(state_map.settled) + COMPACT_ENTRY_BYTES * len(state_map.owed)
    return row_bytes(_envelope(value)) + KEY_BYTES + len(value.histories) + at_most <= TEXT_ROW_BYTES_MAX


def _fits(value: MessageRow) -> bool:
    """Say whether the compact form leaves room enough for whatever is still owed to end."""
    ended = to_bytes(value.map.settled, value.message.accepted_at)
    return _reserved_bytes(value, _progress(value)) + len(ended) <= ROW_BYTES_MAX


def _reserved_bytes(value: MessageRow, progress: Row) -> int:
    """Return what the row takes without its ended entries, and with room for those that are owed."""
    own = row_bytes(_envelope(value)) + KEY_BYTES
    return own + row_bytes(progress) + COMPACT_ENTRY_BYTES * len(value.map.owed)


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
