"""Lists: retained messages, refused queue entries, and messages that the sweep's search found; the sweep's progress."""

from __future__ import annotations

from dataclasses import dataclass, field

from tagcast.ports import QueueEntry
from tagcast.rows.codec import Attributes, Codec, key_part, read_part, row_format
from tagcast.rows.keys import retained_key, sweep_key, unsent_key
from tagcast.rows.message import ttl_after, ttl_attribute
from tagcast.rows.values import number, optional_text, text
from tagcast.tables import Delete, Key, Put, Row, Table

FOUND_ATTRIBUTES = (
    "topic", "message_id", "ordering_key", "unordered", "round", "apart_round", "expires_at", "bounds",
)  # fmt: skip
"""The attributes of a message's row that the sweep's search reads."""


@dataclass(frozen=True, slots=True)
class Retained:
    """An item of the list of retained messages: a message, or one *section* of a wide message."""

    message_id: str
    expires_at: int
    accepted_at: int
    section: int | None = None


def _section_in(row: Attributes) -> int | None:
    section = row["sk"].partition("#")[2]
    return int(section) if section else None


RETAINED = row_format(
    retained_key,
    Codec(
        Retained,
        {
            "message_id": key_part("sk", 0),
            "section": read_part(_section_in),
        },
    ),
    ttl_attribute,
)


UNSENT = row_format(
    unsent_key,
    Codec(
        QueueEntry,
        {
            "message_id": read_part(lambda row: row["message_ids"][0]),
            "others": read_part(lambda row: tuple(row["message_ids"][1:])),
        },
    ),
    lambda entry: {"message_ids": list(entry.message_ids)},
)


@dataclass(frozen=True, slots=True, order=True)
class FoundMessage:
    """A message that the sweep's search found. Values are sorted by topic, message id and section.

    *is_open*: the row of the message has an open first round. *section*: the number of one section of a wide message;
    None for the whole message.
    """

    topic: str
    message_id: str
    section: int | None
    expires_at: int = field(compare=False)
    is_open: bool = field(compare=False)
    ordering_key: str | None = field(compare=False, default=None)
    is_unordered: bool = field(compare=False, default=False)
    is_wide: bool = field(compare=False, default=False)


def found_message(row: Row) -> FoundMessage:
    """Convert the row of a message that the sweep's search returned. The result names no section."""
    return FoundMessage(
        topic=text(row, "topic"),
        message_id=text(row, "message_id"),
        section=None,
        ordering_key=optional_text(row, "ordering_key"),
        is_unordered="unordered" in row,
        expires_at=number(row, "expires_at"),
        is_open="open" in (row["round"], row.get("apart_round")),
        is_wide="bounds" in row,
    )


def kept_id(row: Row) -> str:
    """Return the message id in *row*, the row of a message that still has its body."""
    return text(row, "message_id")


def unsent_put(entry: QueueEntry, expires_at: int) -> Put:
    """Return the write that adds a refused queue entry to its list. Its messages expire at *expires_at*."""
    return Put(_unsent_key(entry), {**UNSENT.row_of(entry), "ttl": ttl_after(expires_at)})


def unsent_delete(row: Row) -> Delete:
    """Return the write that removes a refused queue entry from its list. *row* is the entry's row in this list."""
    return Delete(Key(Table.MESSAGES, text(row, "pk"), text(row, "sk")))


def _unsent_key(entry: QueueEntry) -> Key:
    """Return the key of a queue entry in its list. Entries with the same first message are neighbours."""
    which = entry.audience.value
    which += "" if entry.section is None else f"#{entry.section:05d}"
    which += f"#{entry.rest}" if entry.others else ""
    return unsent_key(entry.topic, entry.message_id, which)


@dataclass(frozen=True, slots=True)
class Pass:
    """The last pass of the search through all messages. It began at *began_at*; None if no pass has begun yet.

    The pass continues at *cursor*. If *cursor* is None, the pass is finished.
    """

    cursor: str | None = None
    began_at: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The sweep's progress.

    *topic* is the last topic whose retained messages were checked. *search* is the last pass of the search. Every sweep
    changes *sweep_count*, so that the table's stream invokes the archive. The alarm ArchiveSilence starts after half an
    hour without an invocation.
    """

    topic: str = ""
    search: Pass = Pass()
    sweep_count: int = 0


SWEEP_ROWS = row_format(sweep_key, Codec(Progress, {"search": Codec(Pass)}))
