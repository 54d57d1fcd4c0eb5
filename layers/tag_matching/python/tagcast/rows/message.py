"""The one codec between messages with their state maps and their rows.

See docs/architecture.md, The state map in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import cast

from tagcast.model import Draft, Entry, Message
from tagcast.queues import Audience, QueueEntry
from tagcast.rows import ordinals, packs
from tagcast.rows.body import inflated
from tagcast.rows.ended_entries import (
    COMPACT_ENTRY_BYTES,
    OUTCOME_BYTES,
    shortened,
    text_bytes_at_most,
    to_bytes,
    to_text,
)
from tagcast.rows.late_entries import LATE_BYTES
from tagcast.rows.map_attributes import map_of, progress_attributes
from tagcast.rows.message_attributes import MessageAttributes
from tagcast.rows.section import Section
from tagcast.rows.values import dense, row_bytes
from tagcast.state_map import AddedLater, StateMap
from tagcast.tables import Row, Value
from tagcast.trace_context import trace_in

GARBAGE_S = 3 * 86_400
TOMBSTONE_S = 86_400 + 4 * 86_400 + GARBAGE_S
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


def message_row(value: MessageRow) -> Row:
    """Return the whole row of a message as it is accepted."""
    return {**_envelope(value), **map_attributes(value)}


def _envelope(value: MessageRow) -> dict[str, Value]:
    """Return the attributes that stay, and the body; a section knows its message by name."""
    message, draft = value.message, value.message.draft
    names: dict[str, Value] = {
        "topic": message.topic,
        "message_id": message.message_id,
        "accepted_at": message.accepted_at,
        "expires_at": message.expires_at,
        "subscriptions_version": value.subscriptions_version,
        "ttl": message.expires_at // 1000 + GARBAGE_S,
    }
    if value.section is not None:
        return names
    content = {
        "body": draft.body if value.has_body and value.deflated is None else None,
        "deflated": value.deflated if value.has_body else None,
        "is_text": int(draft.is_text),
        "tags": list(draft.tags) or None,
        "routing_key": draft.routing_key,
        "properties": dict(draft.properties) or None,
        "ordering_key": draft.ordering_key,
        "content_type": draft.content_type,
        "trace": None if draft.trace is None else draft.trace.text,
        "replay_of": message.replay_of,
        "unordered": 1 if value.in_order == frozenset() else None,
        "in_order": ordinals.pack(value.in_order) if value.in_order else None,
        "bounds": ordinals.pack(value.bounds) if value.bounds else None,
        "packs": None if value.packs is None else packs.to_bytes(value.packs),
        "kept": 1 if value.is_kept else None,
        "filter_errors": list(value.filter_errors[:FILTER_ERROR_NAMES_MAX]) or None,
        "filter_error_count": value.filter_error_count or None,
    }
    return dense({**names, **content})


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


def message_row_of(row: Row) -> MessageRow:
    """Return the message and state map in a row."""
    read = cast("MessageAttributes", row)
    unordered: frozenset[int] | None = frozenset() if "unordered" in read else None
    return MessageRow(
        message=_message_of(read),
        map=map_of(row),
        subscriptions_version=read["subscriptions_version"],
        version=read["version"],
        filter_errors=tuple(read.get("filter_errors") or ()),
        filter_error_count=read.get("filter_error_count") or 0,
        has_body=read.get("body", read.get("deflated")) is not None,
        histories=read.get("histories") or b"",
        in_order=ordinals.unpack(read["in_order"]) if "in_order" in read else unordered,
        packs=packs.of_bytes(read["packs"], read["topic"]) if "packs" in read else None,
        is_kept="kept" in read,
        bounds=tuple(sorted(ordinals.unpack(read["bounds"]))) if "bounds" in read else (),
        deflated=read.get("deflated"),
    )


def _message_of(row: MessageAttributes) -> Message:
    draft = Draft(
        body=inflated(row["deflated"]) if "deflated" in row else row.get("body") or b"",
        is_text=bool(row["is_text"]),
        tags=tuple(row.get("tags") or ()),
        routing_key=row.get("routing_key"),
        properties=row.get("properties") or {},
        ordering_key=row.get("ordering_key"),
        content_type=row.get("content_type"),
        trace=trace_in(row["trace"]) if "trace" in row else None,
    )
    return Message(
        topic=row["topic"],
        message_id=row["message_id"],
        draft=draft,
        accepted_at=row["accepted_at"],
        expires_at=row["expires_at"],
        replay_of=row.get("replay_of"),
    )
