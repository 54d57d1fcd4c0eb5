"""The one codec between messages with their state maps and their rows.

See docs/tables.md, The state map in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import cast

from tagcast.model import Draft, Entry, Message
from tagcast.queues import Audience, QueueEntry
from tagcast.rows import ordinals, packs
from tagcast.rows.body import inflated
from tagcast.rows.declaration import NOT_STORED, Attribute, Beside, Declaration, Fields, From, Written, attribute
from tagcast.rows.ended_entries import (
    COMPACT_ENTRY_BYTES,
    OUTCOME_BYTES,
    shortened,
    text_bytes_at_most,
    to_bytes,
    to_text,
)
from tagcast.rows.keys import message_key, section_key
from tagcast.rows.map_attributes import LATE_BYTES, OF_MAPS, OF_MESSAGES, map_of, progress_attributes
from tagcast.rows.values import dense, row_bytes, text
from tagcast.state_map import AddedLater, StateMap
from tagcast.tables import Row, Value
from tagcast.trace_context import trace_in

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
    return packs.of_bytes(cast("bytes", row["packs"]), text(row, "topic"))


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
    packs=From(_packs, Attribute("JSON, deflated", packs.to_bytes, default=None)),
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
