"""The one codec between messages with their state maps and their rows.

See docs/tables.md, The state map in a row, and docs/protocol.md, Wide messages.
"""

from __future__ import annotations

import json
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, cast

from tagcast.model import BODY_BYTES_MAX, Draft, Entry, Message
from tagcast.queues import Audience, QueueEntry, own_group
from tagcast.rows import ordinals
from tagcast.rows.declaration import NOT_STORED, Attribute, Declaration, Fields, From, Written, attribute
from tagcast.rows.ended_entries import ENTRY_BYTES, OUTCOME_BYTES, OUTCOME_BYTES_MAX, of_bytes, shortened, to_bytes
from tagcast.rows.keys import message_key, section_key, tally_key
from tagcast.rows.values import row_bytes, text
from tagcast.state_map import AddedLater, StateMap
from tagcast.tables import Row, Value
from tagcast.trace_context import trace_in

GARBAGE_S = 3 * 86_400
TOMBSTONE_S = 86_400 + 4 * 86_400 + GARBAGE_S
TTL_AFTER_EXPIRY = Written(f"{{}} // 1000 + {GARBAGE_S}", "expires_at")
FILTER_ERROR_NAMES_MAX = 100
LATE_MAX, LATE_BYTES = 100, 48
"""A message gets at most 100 late entries. Each takes at most 48 bytes besides what any owed entry takes."""
ROW_BYTES_MAX = 300_000
"""Outcomes and attempts that are remembered make no row larger than that.

What was accepted may be: 256 KiB of body, 16 KiB of properties, and the matched ordinals. What is owed is counted as if
it had ended, so that only entries that end later are shortened.
"""
LIGHT_BYTES_MAX, MEMBER_BYTES = 190_000, 26
"""A row with no more in its body and entries is no larger than that, whatever else it has.

An entry takes at most 26 bytes in four sets, with its offset and its end.
"""
KEY_BYTES = 128
"""At most a message's key."""
ENDED_BYTES = 50
"""About what an entry takes that did not end in the first round."""
BODY_ATTRIBUTES = ("body", "deflated")
"""A row has one of them, or none when its message has no body any more."""
DEFLATED_FROM_BYTES, SAVED_BYTES_MIN = 256, 128
"""Shorter bodies are not deflated, nor those of which that saves less: an eighth of what a write is billed by."""
_NO_PACKS = zlib.compress(b"[]")


@dataclass(frozen=True, slots=True)
class Section:
    """Where a section of a state map stands, and what was read of the others.

    A narrow message has one section, in its own row. A wide one has several, each in a row of its own. *ended* are
    those in which nothing is owed, as the tally says in its *tally_version*, 0 before there is one. *message_version*
    is that of the message's own row.
    """

    number: int = 0
    count: int = 1
    ended: frozenset[int] = frozenset()
    tally_version: int = 0
    message_version: int = 0

    @property
    def is_in_message(self) -> bool:
        """Say whether it stands in the message's own row."""
        return self.count == 1

    @property
    def is_beside_open(self) -> bool:
        """Say whether anything of the message is owed in another section."""
        return len(self.ended | {self.number}) < self.count


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message with one *section* of its state map: the *map*, *version* and *histories* are those of its row.

    *in_order* are the matched subscriptions that keep an order. A message that *is_alone* came in a request of its own;
    otherwise the last message of the request carries its *packs*, the entries of the queue. *is_kept*: the body stays
    for life, whatever is owed. *deflated* is the body as the row has it, or None: as it is. *bounds* are the first
    ordinals of a wide message's sections; such a message that was read without a section has, in place of one, what its
    own row says of all: the matched ordinals, and whether anything is owed.
    """

    message: Message
    map: StateMap
    subscriptions_version: int
    version: int
    filter_errors: tuple[str, ...] = ()
    filter_error_count: int = 0
    has_body: bool = True
    histories: bytes = b""
    in_order: frozenset[int] = frozenset()
    is_alone: bool = True
    packs: tuple[QueueEntry, ...] = ()
    is_kept: bool = False
    bounds: tuple[int, ...] = ()
    section: Section = Section()
    deflated: bytes | None = field(default=None, repr=False)

    @property
    def names(self) -> tuple[str, str]:
        """Return the names of topic and message."""
        return self.message.topic, self.message.message_id

    @property
    def is_wide(self) -> bool:
        """Say whether the message has several sections."""
        return bool(self.bounds)

    @property
    def size(self) -> int:
        """Return about how many bytes the section's row has: the body if it stands there, and all that has ended."""
        body = len(self.message.draft.body) if self.section.is_in_message else 0
        return body + len(self.histories) + ENDED_BYTES * len(self.map.settled)

    def of(self, audience: Audience) -> frozenset[int]:
        """Return the matched subscriptions that an entry of the queue is about."""
        match audience:
            case Audience.EVERYBODY:
                return self.map.matched
            case Audience.IN_ORDER:
                return self.in_order
            case Audience.APART:
                return self.map.matched - self.in_order

    def adding(self, ordinal: int, added: AddedLater) -> MessageRow:
        """Return the row with an entry more, for a group that is younger than the message."""
        return replace(self, map=self.map.adding(ordinal, added), version=self.version + 1)

    def settled(
        self,
        entries: Mapping[int, Entry],
        *,
        round_at: int | None = None,
        served: Set[int] | None = None,
        enqueued: Set[int] = frozenset(),
    ) -> MessageRow:
        """Return the row after *entries* became terminal; the body goes with the last of them, unless it is kept.

        Their outcomes are kept as far as the row has room; what ended before stays as it is.
        """
        row = self
        for outcome_bytes_max in OUTCOME_BYTES:
            ended = shortened(entries, outcome_bytes_max)
            after = self.map.settle(ended, round_at=round_at, served=served, enqueued=enqueued)
            stays = self.is_kept or after.owed or self.section.is_beside_open
            has_body = self.has_body and bool(stays)
            row = replace(self, map=after, version=self.version + 1, has_body=has_body)
            if not after.settled or fits(row):
                break
        return row


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
    """Return the body that :func:`deflated` was given; zlib.error if it is larger than a body, or cut off.

    A few bytes that somebody else wrote could otherwise fill the memory of every function that reads them.

    >>> inflated(zlib.compress(b"x" * 300)) == b"x" * 300
    True
    """
    stream = zlib.decompressobj()
    body = stream.decompress(packed, BODY_BYTES_MAX + 1)
    if len(body) > BODY_BYTES_MAX or not stream.eof:
        raise zlib.error("not one whole body")
    return body


def packs_bytes(packs: Sequence[QueueEntry]) -> bytes:
    """Return entries of one topic deflated: the ids of a request have most digits in common.

    Entries for sections of one message are kept together, as a set of numbers.

    >>> ids = [f"{7 * 10**18 + each:020d}" for each in range(96)]
    >>> len(packs_bytes([QueueEntry("t", ids[0], "g", Audience.IN_ORDER, tuple(ids[1:]))])) < 400
    True
    >>> len(packs_bytes([QueueEntry("t", each, "g", section=number) for each in ids for number in range(100)])) < 1_200
    True
    """
    if not packs:
        return _NO_PACKS
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
    for place, key in enumerate(said):
        if key in sections:
            named = dict(zip(("group", "audience", "message_id"), key, strict=True))
            said[place] = {**named, "sections": ordinals.pack(sections[key]).hex()}
    return zlib.compress(json.dumps(said).encode())


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


def _body_in(row: Row) -> bytes:
    deflated = row.get("deflated")
    return inflated(cast("bytes", deflated)) if deflated is not None else cast("bytes", row.get("body") or b"")


def _body_of(value: MessageRow) -> bytes | None:
    return value.message.draft.body if value.has_body and value.deflated is None else None


def _some_in_order(value: MessageRow) -> bytes | None:
    """Return those in order, packed, where others are not: a row says of all and of none in fewer bytes."""
    return ordinals.pack(value.in_order) if value.in_order and value.in_order != value.map.matched else None


def _in_order(row: Mapping[str, Any], state_map: StateMap) -> frozenset[int]:
    if "unordered" in row:
        return frozenset()
    return ordinals.unpack(row["in_order"]) if "in_order" in row else state_map.matched


def _packs_in(row: Row) -> tuple[QueueEntry, ...]:
    return packs_of(cast("bytes", row["packs"]), text(row, "topic")) if "packs" in row else ()


def _owed(row: Mapping[str, Any], matched: frozenset[int]) -> frozenset[int]:
    if "bounds" in row:
        return matched if row["pending"] else frozenset()
    owed = row.get("owed")
    return matched if owed == row["matched"] else ordinals.unpack(owed) if owed else frozenset()


def _owed_of(value: MessageRow) -> bytes | None:
    """Return what is owed, packed; a wide message's own row does not say it."""
    return None if value.is_wide and value.section.is_in_message else _packed(value.map.owed)


def ttl_after(expires_at: int) -> int:
    """Return the second from which on DynamoDB may take a row that is about a life until *expires_at*."""
    return expires_at // 1000 + GARBAGE_S


def _ttl_of(value: MessageRow) -> int | None:
    """Return when the row may go; None while anything is owed, so that no delay of a repair loses a delivery."""
    return None if value.map.owed else ttl_after(value.message.expires_at)


def _finishes(row: Mapping[str, Any]) -> dict[int, int]:
    delivered = sorted(ordinals.unpack(row["finished"]))
    return dict(zip(delivered, struct.unpack(f">{len(delivered)}H", row["finishes"]), strict=True))


def _offsets(finishes: Mapping[int, int]) -> bytes:
    return struct.pack(f">{len(finishes)}H", *(finishes[ordinal] for ordinal in sorted(finishes)))


def _settled(
    row: Mapping[str, Any], matched: Set[int], owed: Set[int], finishes: Mapping[int, int]
) -> dict[int, Entry]:
    return of_bytes(row["ended"], matched - owed - finishes.keys(), row["accepted_at"]) if "ended" in row else {}


def _ended_of(value: MessageRow) -> bytes | None:
    return to_bytes(value.map.settled, value.message.accepted_at) if value.map.settled else None


def _packed(some: Collection[int]) -> bytes | None:
    """Return ordinals packed; None, which no row keeps, when there are none."""
    return ordinals.pack(some) if some else None


def late_text(late: Mapping[int, AddedLater]) -> str:
    """Return late entries as text.

    >>> late_text({7: AddedLater(1_800_000_000_000, 2)}), late_of(late_text({7: AddedLater(5, 2)}))
    ('{"7":[1800000000000,2]}', {7: AddedLater(added_at=5, filter_version=2)})
    """
    return json.dumps({o: [each.added_at, each.filter_version] for o, each in late.items()}, separators=(",", ":"))


def late_of(text: str) -> dict[int, AddedLater]:
    """Return the late entries in a text."""
    return {int(ordinal): AddedLater(*each) for ordinal, each in json.loads(text).items()}


_SET = Attribute("ordinals, packed", ordinals.pack, ordinals.unpack)
_SOME = _SET._replace(default=frozenset())
_PROGRESS: dict[str, Any] = {
    "map": Fields(
        matched=_SET,
        owed=From(_owed, after=("matched",)),
        round_open=From(
            "row['round'] == 'open'", Attribute("`open`, `done`", "'open' if {} else 'done'", name="round")
        ),
        finishes=From(_finishes, Attribute("two bytes each", _offsets, default={})),
        finished=Written(_packed, "finishes", kind="ordinals, packed", optional=True),
        settled=From(_settled, after=("matched", "owed", "finishes")),
        enqueued=_SOME,
        first_round_done=_SOME._replace(name="first_done"),
        added_later=Attribute("JSON", late_text, late_of, default={}, name="late"),
    ),
    "owed": Written(_owed_of, kind="ordinals, packed", optional=True),
    "ended": Written(_ended_of, kind="JSON, deflated", optional=True),
    "histories": Attribute("JSON, deflated", default=b""),
    "ttl": Written(_ttl_of, kind="seconds", optional=True),
}
"""What changes while a message is delivered, its version besides, in its own row or in that of a section."""
MESSAGES = Declaration(
    MessageRow,
    message_key,
    "a message with its state map, later its receipt",
    "3 days after its expiry, once nothing is owed",
    "publish; then fan_out, retry, pull, manage (skip), sweep",
    message=Fields(
        draft=Fields(
            body=From(_body_in),
            is_text=Attribute("0, 1", "int({})", bool),
            properties=Attribute("texts by name", "dict({})", default={}),
            trace=Attribute("text", "{}.text", trace_in, default=None),
        ),
    ),
    filter_errors=Attribute("texts", f"list({{}}[:{FILTER_ERROR_NAMES_MAX}])", tuple, default=()),
    filter_error_count=attribute(default=0),
    has_body=From("'body' in row or 'deflated' in row"),
    in_order=From(_in_order, after=("map",), written=Written(_some_in_order, kind="ordinals, packed", optional=True)),
    unordered=Written("1 if {0}.map.matched and not {0}.in_order else None", kind="1", optional=True),
    is_alone=From("'packs' not in row"),
    packs=From(
        _packs_in,
        Written(lambda row: None if row.is_alone else packs_bytes(row.packs), kind="JSON, deflated", optional=True),
    ),
    is_kept=attribute(named="kept"),
    bounds=Attribute("ordinals, packed", ordinals.pack, lambda packed: (*sorted(ordinals.unpack(packed)),), default=()),
    section=NOT_STORED,
    body=Written(_body_of, kind="bytes", optional=True),
    deflated=From(
        "row.get('deflated')",
        Written("{0}.deflated if {0}.has_body else None", kind="bytes, deflated", optional=True),
    ),
    **_PROGRESS,
    pending=Written("len({}.owed)", "map"),
)
SECTIONS = Declaration(
    MessageRow,
    section_key,
    "one section of the state map of a wide message, from its first change on",
    "3 days after the expiry, once nothing is owed",
    "fan_out, retry, pull, manage (skip), sweep",
    message=Fields(draft=From(lambda row: Draft(b"")), replay_of=NOT_STORED),
    has_body=From("False"),
    **dict.fromkeys(("filter_errors", "filter_error_count", "in_order", "is_alone", "packs"), NOT_STORED),
    **dict.fromkeys(("is_kept", "bounds", "section", "deflated"), NOT_STORED),
    **_PROGRESS,
)


@dataclass(frozen=True, slots=True)
class Tally:
    """In which sections of a message nothing is owed any more: they have *ended*."""

    ended: frozenset[int]
    version: int
    expires_at: int | None = None
    """When the message expires, once all its sections ended: until then nothing may take the row."""


TALLY_ROWS = Declaration(
    Tally,
    tally_key,
    "in which of its sections nobody is owed anything any more",
    "3 days after the expiry, once nothing is owed",
    "the write that ends the last entry of a section",
    ended=Attribute("ordinals, packed", ordinals.pack, ordinals.unpack),
    expires_at=NOT_STORED,
    ttl=Written(
        lambda tally: None if tally.expires_at is None else ttl_after(tally.expires_at), kind="seconds", optional=True
    ),
)


def message_row(value: MessageRow) -> Row:
    """Return the whole row of a message as it is accepted, or of a section."""
    return _rows_of(value).row_of(value)


def map_attributes(value: MessageRow) -> dict[str, Value]:
    """Return the attributes that change while a message is delivered.

    A section does not say how much is owed, so that no search finds it.
    """
    return _progress(_rows_of(value))(value)


def _rows_of(value: MessageRow) -> Declaration[MessageRow]:
    return MESSAGES if value.section.is_in_message else SECTIONS


@cache
def _progress(rows: Declaration[MessageRow]) -> Callable[[MessageRow], dict[str, Value]]:
    return rows.attributes_of("version", *_PROGRESS, *(("pending",) if rows is MESSAGES else ()))


def fits(value: MessageRow) -> bool:
    """Say whether the row has room for what it says and for whatever is still owed to end; most rows are light."""
    entries = OUTCOME_BYTES_MAX * len(value.map.settled) + MEMBER_BYTES * len(value.map.matched)
    return value.size + entries <= LIGHT_BYTES_MAX or bytes_at_end(value) <= ROW_BYTES_MAX


def bytes_at_end(value: MessageRow) -> int:
    """Return how many bytes the row takes once whatever is owed has ended, without the outcomes of that."""
    ends_here = not (value.is_wide and value.section.is_in_message)
    return row_bytes(message_row(value)) + KEY_BYTES + (ENTRY_BYTES * len(value.map.owed) if ends_here else 0)


def bounds_of(matched: Collection[int], entries_max: int) -> tuple[int, ...]:
    """Return the first ordinals of the sections, of at most *entries_max* entries each; none where one has them all.

    >>> bounds_of([9, 1, 4, 7, 8], 2), bounds_of([1, 2], 2)
    ((1, 7, 9), ())
    """
    return tuple(sorted(matched)[::entries_max]) if len(matched) > entries_max else ()


def section_with(row: MessageRow, ordinal: int) -> int:
    """Return the number of the section of a wide message that has the entry of *ordinal*.

    Late entries are for groups that are younger than all matched subscriptions: the last section has them.
    """
    return max(0, bisect_right(row.bounds, ordinal) - 1)


def memberships(row: MessageRow) -> Iterator[frozenset[int]]:
    """Yield the matched ordinals of a wide message, section by section."""
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
    """Return a wide message, read as *row*, with one section: *found* and *tally* are its rows, if any."""
    if found is None:
        known, version, histories = unwritten(row, section), 0, b""
    else:
        written = SECTIONS.value_of(found)
        known, version, histories = written.map, written.version, written.histories
    tallied = Tally(frozenset(), 0) if tally is None else TALLY_ROWS.value_of(tally)
    return replace(
        row,
        map=known,
        version=version,
        histories=histories,
        in_order=row.in_order & known.matched,
        section=Section(section, len(row.bounds), tallied.ended, tallied.version, row.version),
    )
