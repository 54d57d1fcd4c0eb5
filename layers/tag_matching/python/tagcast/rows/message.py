"""The one codec between messages with their state maps and their rows.

See docs/tables.md, The state map in a row, and docs/protocol.md, Wide messages.
"""

from __future__ import annotations

import json
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from tagcast.model import BODY_BYTES_MAX, Draft, Entry, Message
from tagcast.queues import Audience, QueueEntry, own_group
from tagcast.rows import ordinals
from tagcast.rows.ended_entries import ENTRY_BYTES, OUTCOME_BYTES, OUTCOME_BYTES_MAX, of_bytes, shortened, to_bytes
from tagcast.rows.keys import message_key, section_key, tally_key
from tagcast.rows.kind import Attributes, Kind
from tagcast.rows.values import row_bytes
from tagcast.state_map import AddedLater, StateMap
from tagcast.tables import Row, Value
from tagcast.trace_context import trace_in

GARBAGE_S = 3 * 86_400
TOMBSTONE_S = 86_400 + 4 * 86_400 + GARBAGE_S
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


def ttl_after(expires_at: int) -> int:
    """Return the second from which on DynamoDB may take a row that is about a life until *expires_at*."""
    return expires_at // 1000 + GARBAGE_S


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


def _progress_row(value: MessageRow) -> dict[str, Value]:
    """Return what changes while a message is delivered, in its own row or in that of a section.

    A row has no ``ttl`` while anything is owed, so that no delay of a repair loses a delivery. The own row of a wide
    message does not say what is owed.
    """
    state_map, accepted_at = value.map, value.message.accepted_at
    ends_here = not (value.is_wide and value.section.is_in_message)
    finishes = state_map.finishes
    return _present(
        {
            "version": value.version,
            "matched": ordinals.pack(state_map.matched),
            "owed": _packed(state_map.owed) if ends_here else None,
            "round": "open" if state_map.round_open else "done",
            "round_at": state_map.round_at,
            "finished": _packed(finishes),
            "finishes": struct.pack(f">{len(finishes)}H", *(finishes[o] for o in sorted(finishes))) or None,
            "ended": to_bytes(state_map.settled, accepted_at) if state_map.settled else None,
            "enqueued": _packed(state_map.enqueued),
            "first_done": _packed(state_map.first_round_done),
            "late": late_text(state_map.added_later) if state_map.added_later else None,
            "histories": value.histories or None,
            "ttl": None if state_map.owed else ttl_after(value.message.expires_at),
        }
    )


def _message_row(value: MessageRow) -> dict[str, Value]:
    message, draft, state_map = value.message, value.message.draft, value.map
    plain = draft.body if value.has_body and value.deflated is None else None
    # A row says of all and of none in fewer bytes.
    some_in_order = value.in_order if value.in_order != state_map.matched else frozenset()
    return _progress_row(value) | _present(
        {
            "topic": message.topic,
            "message_id": message.message_id,
            "body": plain,
            "deflated": value.deflated if value.has_body else None,
            "is_text": int(draft.is_text),
            "tags": list(draft.tags) or None,
            "routing_key": draft.routing_key,
            "properties": dict(draft.properties) or None,
            "ordering_key": draft.ordering_key,
            "content_type": draft.content_type,
            "trace": None if draft.trace is None else draft.trace.text,
            "accepted_at": message.accepted_at,
            "expires_at": message.expires_at,
            "replay_of": message.replay_of,
            "subscriptions_version": value.subscriptions_version,
            "filter_errors": list(value.filter_errors[:FILTER_ERROR_NAMES_MAX]) or None,
            "filter_error_count": value.filter_error_count or None,
            "in_order": _packed(some_in_order),
            "unordered": 1 if bool(state_map.matched) and not value.in_order else None,
            "packs": None if value.is_alone else packs_bytes(value.packs),
            "kept": 1 if value.is_kept else None,
            "bounds": _packed(value.bounds),
            "pending": len(state_map.owed),
        }
    )


def _section_row(value: MessageRow) -> dict[str, Value]:
    message = value.message
    return _progress_row(value) | {
        "topic": message.topic,
        "message_id": message.message_id,
        "accepted_at": message.accepted_at,
        "expires_at": message.expires_at,
        "subscriptions_version": value.subscriptions_version,
    }


def _present(attributes: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in attributes.items() if value is not None}


def _map_in(row: Attributes, owed: frozenset[int] | None = None) -> StateMap:
    """Return the map of a row, of which everything in it that is *owed* is known if it does not say that itself."""
    matched = ordinals.unpack(row["matched"])
    if owed is None:
        packed = row.get("owed")
        owed = matched if packed == row["matched"] else ordinals.unpack(packed) if packed else frozenset()
    finished = sorted(ordinals.unpack(row["finished"])) if "finished" in row else ()
    offsets = struct.unpack(f">{len(finished)}H", row["finishes"]) if finished else ()
    ended = matched - owed - set(finished)
    return StateMap(
        matched=matched,
        owed=owed,
        round_open=row["round"] == "open",
        round_at=row.get("round_at"),
        finishes=dict(zip(finished, offsets, strict=True)),
        settled=of_bytes(row["ended"], ended, row["accepted_at"]) if "ended" in row else {},
        enqueued=_unpacked(row, "enqueued"),
        first_round_done=_unpacked(row, "first_done"),
        added_later=late_of(row["late"]) if "late" in row else {},
    )


def _unpacked(row: Attributes, name: str) -> frozenset[int]:
    return ordinals.unpack(row[name]) if name in row else frozenset()


def _message_in(row: Attributes) -> MessageRow:
    get, packed = row.get, row.get("deflated")
    draft = Draft(
        body=get("body", b"") if packed is None else inflated(packed),
        is_text=bool(row["is_text"]),
        tags=tuple(get("tags", ())),
        routing_key=get("routing_key"),
        properties=get("properties", {}),
        ordering_key=get("ordering_key"),
        content_type=get("content_type"),
        trace=trace_in(row["trace"]) if "trace" in row else None,
    )
    bounds = (*sorted(_unpacked(row, "bounds")),)
    nothing = frozenset[int]() if bounds and not row["pending"] else None
    state_map = _map_in(row, ordinals.unpack(row["matched"]) if bounds and row["pending"] else nothing)
    in_order = _unpacked(row, "in_order") if "in_order" in row or "unordered" in row else state_map.matched
    return MessageRow(
        message=_envelope(row, draft, get("replay_of")),
        map=state_map,
        subscriptions_version=row["subscriptions_version"],
        version=row["version"],
        filter_errors=tuple(get("filter_errors", ())),
        filter_error_count=get("filter_error_count", 0),
        has_body="body" in row or packed is not None,
        histories=get("histories", b""),
        in_order=in_order,
        is_alone="packs" not in row,
        packs=packs_of(row["packs"], row["topic"]) if "packs" in row else (),
        is_kept="kept" in row,
        bounds=bounds,
        deflated=packed,
    )


def _section_in(row: Attributes) -> MessageRow:
    return MessageRow(
        message=_envelope(row, Draft(b"")),
        map=_map_in(row),
        subscriptions_version=row["subscriptions_version"],
        version=row["version"],
        has_body=False,
        histories=row.get("histories", b""),
    )


def _envelope(row: Attributes, draft: Draft, replay_of: str | None = None) -> Message:
    return Message(row["topic"], row["message_id"], draft, row["accepted_at"], row["expires_at"], replay_of)


MESSAGES = Kind(message_key, _message_row, _message_in)
"""A message with its state map; of a wide one the row says who matched, and whether anything is owed."""
SECTIONS = Kind(section_key, _section_row, _section_in)


@dataclass(frozen=True, slots=True)
class Tally:
    """In which sections of a message nothing is owed any more: they have *ended*."""

    ended: frozenset[int]
    version: int
    expires_at: int | None = None
    """When the message expires, once all its sections ended: until then nothing may take the row."""


def _tally_row(tally: Tally) -> dict[str, Value]:
    ttl = None if tally.expires_at is None else ttl_after(tally.expires_at)
    return _present({"ended": ordinals.pack(tally.ended), "version": tally.version, "ttl": ttl})


TALLY_ROWS = Kind(tally_key, _tally_row, lambda row: Tally(ordinals.unpack(row["ended"]), row["version"]))


def message_row(value: MessageRow) -> Row:
    """Return the whole row of a message as it is accepted, or of a section."""
    return (MESSAGES if value.section.is_in_message else SECTIONS).row_of(value)


def map_attributes(value: MessageRow) -> dict[str, Value]:
    """Return the attributes that change while a message is delivered.

    A section does not say how much is owed, so that no search finds it.
    """
    pending = {"pending": len(value.map.owed)} if value.section.is_in_message else {}
    return _progress_row(value) | pending


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
