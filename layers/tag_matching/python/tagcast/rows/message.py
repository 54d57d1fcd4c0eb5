"""The codec between an accepted message and its row. The row of a narrow message includes its first rounds.

See docs/tables.md, A message's rows. `tagcast.rows.message_transitions` writes this row. It also writes the separate
rows: the first rounds of a wide message, ends, and late entries.
"""

from __future__ import annotations

import json
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tagcast.model import BODY_BYTES_MAX, Draft, Message, Topic
from tagcast.queues import Audience, QueueEntry, own_group
from tagcast.rows import ordinals
from tagcast.rows.codec import Attributes, Codec, RowFormat, dense, list_part, optional_part
from tagcast.rows.ended_entries import ENTRY_BYTES, of_bytes, to_bytes
from tagcast.rows.keys import message_key
from tagcast.rows.state_map import Round, RoundPart, StateMap
from tagcast.rows.values import row_bytes
from tagcast.tables import Value
from tagcast.trace_context import parse_trace

GARBAGE_S = 3 * 86_400
TOMBSTONE_S = 86_400 + 4 * 86_400 + GARBAGE_S
FILTER_ERROR_NAMES_MAX = 100
LATE_MAX = 100
"""A message gets at most 100 late entries."""
KEY_BYTES = 128
"""The most bytes of the key of a message's row."""
BODY_ATTRIBUTES = ("body", "deflated")
"""The attributes of a body. A row has one of them, or none after the body's deletion."""
DEFLATED_FROM_BYTES, SAVED_BYTES_MIN = 256, 128
"""A body is deflated from 256 bytes on, if that saves at least 128 bytes: an eighth of a billed write unit."""
ACCEPTED_BYTES_MAX = 395_000
"""The most bytes of an accepted message's row. DynamoDB's limit is 409,600 bytes.

The remaining bytes are for the queue entries of a request, and for a hundred late entries.
"""
OTHERS_BYTES_MAX = 110_000
"""The most bytes of a row without its body and its sets of ordinals: the envelope, and the entries of a full map."""
OPEN, DONE = "open", "done"
_NO_PACKS = zlib.compress(b"[]")


@dataclass(frozen=True, slots=True)
class MessageRow:
    """An accepted message with the states of its deliveries. *map* is computed from the rows that were read.

    - *subscriptions_version*: the topic's version at the publish. *filter_errors*: names of subscriptions whose filters
      failed, at most 100; *filter_error_count* is the number of all.
    - *in_order*: the matched subscriptions that are ordered.
    - *is_alone*: the message came in a request of its own. Otherwise the last message of the request has *packs*,
      the queue entries of the request.
    - *is_split*: the message has separate queue entries for the ordered and for the unordered subscriptions.
    - *is_kept*: the body stays until the message expires, even without pending deliveries.
    - *deflated*: the deflated body in the row; None if the row has no body, or one without compression.
    - *bounds*: the first ordinals of a wide message's sections; empty for a narrow message.
    - *section*: the number of the section to which *map* is limited; None for the whole message.
    - *rounds*: the rounds of the *section* or of a narrow message, by audience. The value of an open round is None.
    - *partial*: by audience, the number of writes that ended deliveries before the round was closed. If there were any,
      the worker reads these ends before it closes the round.
    - *late*: the number of late entries. *is_pending*: whether deliveries may be pending.
    """

    message: Message
    map: StateMap
    subscriptions_version: int
    filter_errors: tuple[str, ...] = ()
    filter_error_count: int = 0
    has_body: bool = True
    in_order: frozenset[int] = frozenset()
    is_alone: bool = True
    packs: tuple[QueueEntry, ...] = ()
    is_split: bool = False
    is_kept: bool = False
    bounds: tuple[int, ...] = ()
    section: int | None = None
    deflated: bytes | None = field(default=None, repr=False)
    rounds: Mapping[Audience, Round | None] = field(default_factory=dict)
    partial: Mapping[Audience, int] = field(default_factory=dict)
    late: int = 0
    is_pending: bool = True

    @property
    def names(self) -> tuple[str, str]:
        """The name of the topic and the message id."""
        return self.message.topic, self.message.message_id

    @property
    def is_wide(self) -> bool:
        """Whether the message has several sections."""
        return bool(self.bounds)

    @property
    def size(self) -> int:
        """The approximate size of the message's row, in bytes."""
        return len(self.message.draft.body) + len(self.map.matched)

    def of(self, audience: Audience) -> frozenset[int]:
        """Return the ordinals that a queue entry for *audience* covers. Late entries are not included."""
        matched = self.map.matched - self.map.added_later.keys()
        match audience:
            case Audience.EVERYBODY:
                return matched
            case Audience.IN_ORDER:
                return self.in_order & matched
            case Audience.APART:
                return matched - self.in_order

    @property
    def audiences(self) -> tuple[Audience, ...]:
        """The audiences that have a first round each.

        A split message has a round of its ordered and a round of its unordered subscriptions, if it matched both kinds.
        Any other message has one round, for everybody.
        """
        halves = (Audience.IN_ORDER, Audience.APART)
        return halves if self.is_split and all(map(self.of, halves)) else (Audience.EVERYBODY,)


def deflate_body(body: bytes) -> bytes | None:
    """Return the deflated body, or None if the body is too small or deflating saves too little.

    >>> deflate_body(b"x" * 255), len(deflate_body(b"x" * 1024) or b"")
    (None, 17)
    """
    if len(body) < DEFLATED_FROM_BYTES:
        return None
    packed = zlib.compress(body)
    return packed if len(packed) <= len(body) - SAVED_BYTES_MIN else None


def inflate_body(packed: bytes) -> bytes:
    """Return the inflated body. Raises zlib.error if *packed* is truncated, or if the body exceeds the size limit.

    Without this limit, a few bytes from another writer could fill the memory of every function that reads the row.

    >>> inflate_body(zlib.compress(b"x" * 300)) == b"x" * 300
    True
    """
    stream = zlib.decompressobj()
    body = stream.decompress(packed, BODY_BYTES_MAX + 1)
    if len(body) > BODY_BYTES_MAX or not stream.eof:
        raise zlib.error("the body is truncated or too large")
    return body


def packs_bytes(packs: Sequence[QueueEntry]) -> bytes:
    """Return the queue entries of a request, all of one topic, as deflated JSON. The ids of a request compress well.

    The entries for several sections of one message are stored as one item, with the set of their section numbers.

    >>> ids = [f"{7 * 10**18 + each:020d}" for each in range(96)]
    >>> len(packs_bytes([QueueEntry("t", ids[0], "g", Audience.IN_ORDER, tuple(ids[1:]))])) < 400
    True
    >>> len(packs_bytes([QueueEntry("t", each, "g", section=number) for each in ids for number in range(100)])) < 1_200
    True
    """
    if not packs:
        return _NO_PACKS
    items: list[Any] = []
    sections: dict[tuple[str, str, str], list[int]] = {}
    for entry in packs:
        if entry.section is None:
            items.append((entry.group, entry.audience.value, *entry.message_ids))
            continue
        key = (entry.group if entry.has_order else "", entry.audience.value, entry.message_id)
        if key not in sections:
            items.append(key)
        sections.setdefault(key, []).append(entry.section)
    for place, key in enumerate(items):
        if key in sections:
            named = dict(zip(("group", "audience", "message_id"), key, strict=True))
            items[place] = {**named, "sections": ordinals.pack(sections[key]).hex()}
    return zlib.compress(json.dumps(items).encode())


def read_packs(packs: bytes, topic: str) -> tuple[QueueEntry, ...]:
    """Return the queue entries packed by :func:`packs_bytes`."""
    return tuple(entry for each in json.loads(zlib.decompress(packs)) for entry in _pack_entries(each, topic))


def _pack_entries(item: Any, topic: str) -> Iterator[QueueEntry]:
    if isinstance(item, list):
        group, audience, first, *others = item
        yield QueueEntry(topic, first, group, Audience(audience), tuple(others))
        return
    message_id, audience = item["message_id"], Audience(item["audience"])
    for section in sorted(ordinals.unpack(bytes.fromhex(item["sections"]))):
        group = item["group"] or own_group(message_id, section)
        yield QueueEntry(topic, message_id, group, audience, section=section)


def ttl_after(expires_at: int) -> int:
    """Return the time to live (seconds) of a row about a message that expires at *expires_at* (milliseconds)."""
    return expires_at // 1000 + GARBAGE_S


def ttl_attribute(about: Any) -> dict[str, Value]:
    """Return the attribute ``ttl`` for a row about a message. The field *expires_at* of *about* is its expiry."""
    return {"ttl": ttl_after(about.expires_at)}


def _pack_ordinals(some: Collection[int]) -> bytes | None:
    """Return the packed ordinals, or None if there are no ordinals. None is not stored."""
    return ordinals.pack(some) if some else None


def _unpack_ordinals(row: Attributes, name: str) -> frozenset[int]:
    return ordinals.unpack(row[name]) if name in row else frozenset()


def prefix_of(audience: Audience) -> str:
    """Return the prefix of the attributes of an audience's first round in the message's row.

    The row of a message with *is_split* has two first rounds: for ordered and for unordered subscriptions.
    """
    return "apart_" if audience is Audience.APART else ""


def round_attributes(done: Round, accepted_at: int, prefix: str) -> dict[str, Value]:
    """Return the row attributes of a closed round. Their names begin with *prefix*.

    Instants are stored relative to *accepted_at*, when the message was accepted.

    >>> from tagcast.model import Entry, EntryState
    >>> one = Round(1_000, {1: 30}, {2: Entry(EntryState.EXPIRED)}, frozenset({3}))
    >>> round_in(round_attributes(one, 900, ""), 900, "") == one
    True
    """
    finishes = done.finishes
    return dense(
        {
            f"{prefix}round": DONE,
            f"{prefix}round_at": done.at,
            f"{prefix}delivered": _pack_ordinals(finishes),
            f"{prefix}offsets": struct.pack(f">{len(finishes)}H", *(finishes[o] for o in sorted(finishes))) or None,
            f"{prefix}ended": _pack_ordinals(done.ended),
            f"{prefix}ends": to_bytes(done.ended, accepted_at) if done.ended else None,
            f"{prefix}enqueued": _pack_ordinals(done.enqueued),
        }
    )


def round_in(row: Attributes, accepted_at: int, prefix: str) -> Round | None:
    """Return the round whose attribute names begin with *prefix* (:func:`prefix_of`), or None while the round is open.

    The message was accepted at *accepted_at*. A round that was closed without being served gets this time. Either the
    message matched no subscription, or all its deliveries ended before.
    """
    if row.get(f"{prefix}round") != DONE:
        return None
    delivered = sorted(_unpack_ordinals(row, f"{prefix}delivered"))
    offsets = struct.unpack(f">{len(delivered)}H", row[f"{prefix}offsets"]) if delivered else ()
    ended = _unpack_ordinals(row, f"{prefix}ended")
    return Round(
        row.get(f"{prefix}round_at", accepted_at),
        dict(zip(delivered, offsets, strict=True)),
        of_bytes(row[f"{prefix}ends"], ended, accepted_at) if ended else {},
        _unpack_ordinals(row, f"{prefix}enqueued"),
    )


_DRAFTS = Codec(
    Draft,
    {
        "tags": list_part("tags"),
        "properties": optional_part("properties", dict, missing={}),
        "trace": optional_part("trace", lambda trace: trace.text, parse_trace),
    },
    elsewhere=("body", "is_text"),
)
"""The codec of a published message, without its body."""


def _message_row(value: MessageRow) -> dict[str, Value]:
    message, draft, matched = value.message, value.message.draft, value.map.matched
    # To save bytes, the row does not repeat *matched* if all are ordered, and has a flag if none is.
    some_in_order = value.in_order if value.in_order != matched else frozenset()
    return dense(
        {
            "topic": message.topic,
            "message_id": message.message_id,
            "body": draft.body if value.has_body and value.deflated is None else None,
            "deflated": value.deflated if value.has_body else None,
            "is_text": int(draft.is_text),
            **_DRAFTS.attributes(draft),
            "accepted_at": message.accepted_at,
            "expires_at": message.expires_at,
            "replay_of": message.replay_of,
            "subscriptions_version": value.subscriptions_version,
            "filter_errors": list(value.filter_errors[:FILTER_ERROR_NAMES_MAX]) or None,
            "filter_error_count": value.filter_error_count or None,
            "matched": ordinals.pack(matched),
            "in_order": _pack_ordinals(some_in_order),
            "unordered": 1 if matched and not value.in_order else None,
            "packs": None if value.is_alone else packs_bytes(value.packs),
            "kept": 1 if value.is_kept else None,
            "late": value.late,
            "bounds": _pack_ordinals(value.bounds),
            "round": OPEN if matched else DONE,
            "apart_round": OPEN if value.is_split else None,
            "partial": 0,
            "pending": int(value.is_pending),
            "ttl": None if value.is_pending else ttl_after(message.expires_at),
        }
    )


def _message_in(row: Attributes) -> MessageRow:
    """Return the message in a row, with the part of the map that the row contains."""
    get, packed, accepted_at = row.get, row.get("deflated"), row["accepted_at"]
    draft = Draft(
        body=get("body", b"") if packed is None else inflate_body(packed),
        is_text=bool(row["is_text"]),
        **_DRAFTS.fields(row),
    )
    matched, is_split = ordinals.unpack(row["matched"]), "apart_round" in row
    in_order = _unpack_ordinals(row, "in_order") if "in_order" in row or "unordered" in row else matched
    known = MessageRow(
        message=Message(row["topic"], row["message_id"], draft, accepted_at, row["expires_at"], get("replay_of")),
        map=StateMap(matched, matched, matched),
        subscriptions_version=row["subscriptions_version"],
        filter_errors=tuple(get("filter_errors", ())),
        filter_error_count=get("filter_error_count", 0),
        has_body="body" in row or packed is not None,
        in_order=in_order,
        is_alone="packs" not in row,
        packs=read_packs(row["packs"], row["topic"]) if "packs" in row else (),
        is_split=is_split,
        is_kept="kept" in row,
        bounds=(*sorted(_unpack_ordinals(row, "bounds")),),
        deflated=packed,
        late=row["late"],
        is_pending=row["pending"] > 0,
    )
    if known.is_wide:
        return known if known.is_pending else replace(known, map=StateMap(matched, frozenset()))
    rounds = {each: round_in(row, accepted_at, prefix_of(each)) for each in known.audiences}
    partial = cast("dict[Audience, int]", dict.fromkeys(rounds, row["partial"]))
    if not any(rounds.values()):
        return replace(known, rounds=rounds, partial=partial)
    return replace(known, rounds=rounds, partial=partial, map=StateMap.fold(parts_of(known, rounds), {}))


MESSAGES = RowFormat(message_key, _message_row, _message_in)


def parts_of(row: MessageRow, rounds: Mapping[Audience, Round | None]) -> list[RoundPart]:
    """Return a pair for each audience in *rounds*: the ordinals of the audience, and the audience's round."""
    return [(row.of(audience), its_round) for audience, its_round in rounds.items()]


def bytes_at_end(value: MessageRow) -> int:
    """Return the bytes of the message's row after all deliveries have ended, without the outcomes of the ends."""
    inside = 0 if value.is_wide else ENTRY_BYTES * len(value.map.matched)
    return row_bytes(_message_row(value)) + KEY_BYTES + inside


def bounds_of(matched: Collection[int], entries_max: int) -> tuple[int, ...]:
    """Return the first ordinal of each section of at most *entries_max* entries; empty if one section is enough.

    >>> bounds_of([9, 1, 4, 7, 8], 2), bounds_of([1, 2], 2)
    ((1, 7, 9), ())
    """
    return tuple(sorted(matched)[::entries_max]) if len(matched) > entries_max else ()


def section_number_of(row: MessageRow, ordinal: int) -> int:
    """Return the number of the section that has the entry of *ordinal*; 0 if the message has no sections.

    A late entry's group was created after all matched subscriptions. So its ordinal is higher, and the entry is in the
    last section.
    """
    return max(0, bisect_right(row.bounds, ordinal) - 1)


def memberships(row: MessageRow) -> Iterator[frozenset[int]]:
    """Yield the set of matched ordinals of each section of a wide message. *row* must be the whole message."""
    matched = sorted(row.map.matched)
    starts = [bisect_left(matched, bound) for bound in row.bounds]
    for start, end in zip(starts, (*starts[1:], len(matched)), strict=True):
        yield frozenset(matched[start:end])


def members_of(row: MessageRow, section: int) -> frozenset[int]:
    """Return the matched ordinals of the section number *section*. *row* must be the whole wide message."""
    low, *behind = row.bounds[section : section + 2]
    return frozenset(o for o in row.map.matched if low <= o and not (behind and o >= behind[0]))


def may_outgrow(topic: Topic, body: bytes) -> bool:
    """Return whether the row of a message with *body* may become too large, as far as is known before the match.

    At worst, two sets in the row (``matched`` and ``in_order``) contain all subscriptions. A set is stored as a bitmap
    with one bit for each ordinal, or as the gaps between its ordinals. The gaps take at most a byte for each
    subscription, and one more for each 128 ordinals.
    """
    ordinals, members = topic.next_ordinal, topic.subscription_count
    packed = 1 + min(ordinals // 8 + 1, members + ordinals // 128, members * (ordinals.bit_length() // 7 + 1))
    return len(body) + 2 * packed + OTHERS_BYTES_MAX > ACCEPTED_BYTES_MAX


def outgrows(row: MessageRow) -> bool:
    """Return whether the row of :func:`accepted_put` would become too large as its deliveries end."""
    return bytes_at_end(with_stored_body(row)) > ACCEPTED_BYTES_MAX


def with_stored_body(row: MessageRow) -> MessageRow:
    """Return *row* with ``deflated`` set to the deflated body, or to None if the body is stored uncompressed."""
    return replace(row, deflated=deflate_body(row.message.draft.body)) if row.has_body else row
