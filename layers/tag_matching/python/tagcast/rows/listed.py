"""Messages as they stand in lists: retained after their first round, not taken by the queue, found by the search."""

from __future__ import annotations

from dataclasses import dataclass, field

from tagcast.ports import QueueEntry
from tagcast.queues import Audience
from tagcast.rows.keys import retained_key, sweep_key, unsent_key
from tagcast.rows.kind import Attributes, Kind
from tagcast.rows.message import ttl_after
from tagcast.rows.values import dense, number, optional_text, text
from tagcast.tables import Delete, Key, Put, Row, Table, Value

FOUND_ATTRIBUTES = (
    "topic", "message_id", "ordering_key", "unordered", "round", "apart_round", "expires_at", "bounds",
)  # fmt: skip
"""What a search has to show of the messages that it finds."""


@dataclass(frozen=True, slots=True)
class Retained:
    """A message, or one *section* of its map, in the list of what is owed after its first round."""

    message_id: str
    expires_at: int
    accepted_at: int
    section: int | None = None


def _retained_row(retained: Retained) -> dict[str, Value]:
    return {
        "expires_at": retained.expires_at,
        "accepted_at": retained.accepted_at,
        "ttl": ttl_after(retained.expires_at),
    }


def _retained_in(row: Attributes) -> Retained:
    message_id, _, section = row["sk"].partition("#")
    return Retained(message_id, row["expires_at"], row["accepted_at"], int(section) if section else None)


RETAINED = Kind(retained_key, _retained_row, _retained_in)


def _unsent_row(entry: QueueEntry) -> dict[str, Value]:
    return dense(
        {
            "topic": entry.topic,
            "message_ids": list(entry.message_ids),
            "group": entry.group,
            "audience": entry.audience.value,
            "section": entry.section,
        }
    )


def _unsent_in(row: Attributes) -> QueueEntry:
    message_id, *others = row["message_ids"]
    audience = Audience(row["audience"])
    return QueueEntry(row["topic"], message_id, row["group"], audience, tuple(others), row.get("section"))


UNSENT = Kind(unsent_key, _unsent_row, _unsent_in)


@dataclass(frozen=True, slots=True, order=True)
class FoundMessage:
    """A message that the search found, in order of its topic and id; *is_open* is one that owes its first round.

    Of a wide one, whose map is kept in sections, it is what stands for one *section*, or for all of them: None.
    """

    topic: str
    message_id: str
    section: int | None
    expires_at: int = field(compare=False)
    is_open: bool = field(compare=False)
    ordering_key: str | None = field(compare=False, default=None)
    is_unordered: bool = field(compare=False, default=False)
    is_wide: bool = field(compare=False, default=False)


def found_of(row: Row) -> FoundMessage:
    """Return what a row of the search says."""
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
    """Return the id of a message that is kept."""
    return text(row, "message_id")


def unsent_put(entry: QueueEntry, expires_at: int) -> Put:
    """Return the write that lists what the queue did not take; *expires_at* is the end of the message's life."""
    return Put(_unsent_key(entry), {**UNSENT.row_of(entry), "ttl": ttl_after(expires_at)})


def unsent_delete(row: Row) -> Delete:
    """Return the write that takes a row off its list."""
    return Delete(Key(Table.MESSAGES, text(row, "pk"), text(row, "sk")))


def _unsent_key(entry: QueueEntry) -> Key:
    """Return the key of an entry in its list: two that begin with one message stand side by side."""
    which = entry.audience.value
    which += "" if entry.section is None else f"#{entry.section:05d}"
    which += f"#{entry.rest}" if entry.others else ""
    return unsent_key(entry.topic, entry.message_id, which)


@dataclass(frozen=True, slots=True)
class Pass:
    """How far the present pass of the search came (*cursor* None: it is over), and when it began."""

    cursor: str | None = None
    began_at: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The topic behind which the next sweep goes on with what is retained, and the pass of the search."""

    topic: str = ""
    search: Pass = Pass()


def _progress_row(progress: Progress) -> dict[str, Value]:
    search = progress.search
    return dense({"topic": progress.topic, "cursor": search.cursor, "began_at": search.began_at})


def _progress_in(row: Attributes) -> Progress:
    return Progress(row["topic"], Pass(row.get("cursor"), row.get("began_at")))


SWEEP_ROWS = Kind(sweep_key, _progress_row, _progress_in)
