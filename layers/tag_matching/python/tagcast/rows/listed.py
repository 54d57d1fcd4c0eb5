"""Messages as they stand in lists: retained after their first round, not taken by the queue, found by the search."""

from __future__ import annotations

from dataclasses import dataclass, field

from tagcast.ports import QueueEntry
from tagcast.rows.declaration import Beside, Declaration, Fields, From, InKey, Written
from tagcast.rows.keys import sweep_key, unsent_key
from tagcast.rows.message import GARBAGE_S, TTL_AFTER_EXPIRY
from tagcast.rows.values import number, optional_text, text, texts
from tagcast.tables import Delete, Key, Put, Row, Table

FOUND_ATTRIBUTES = ("topic", "message_id", "ordering_key", "unordered", "round", "pending", "expires_at", "bounds")
"""What a search has to show of the messages that it finds."""


@dataclass(frozen=True, slots=True)
class Retained:
    """A message, or one *section* of its map, in the list of what is owed after its first round."""

    message_id: str
    expires_at: int
    accepted_at: int
    section: int | None = None


def _section_of(row: Row) -> int | None:
    number = text(row, "sk").partition("#")[2]
    return int(number) if number else None


RETAINED = Declaration(
    Retained,
    (Table.MESSAGES, "RETAINED#topic", "`id` or `id#section`"),
    "a message, or a section of its map, that is owed after its first round, and was not handed over",
    "with the last entry",
    "the write that closes the round or ends the last entry",
    message_id=InKey("sk", 0),
    section=From(_section_of),
    ttl=TTL_AFTER_EXPIRY,
)
UNSENT = Declaration(
    QueueEntry,
    (
        Table.MESSAGES,
        "UNSENT#shard",
        "`id#topic#audience` or `id#topic#audience#section`; behind that of a pack a digest of its other ids",
    ),
    "an entry that the queue did not take",
    "when the queue took it",
    "relay, sweep",
    message_ids=Written("list({})", "message_ids", kind="texts"),
    message_id=From(lambda row: texts(row, "message_ids")[0]),
    others=From(lambda row: tuple(texts(row, "message_ids")[1:])),
    ttl=Beside("seconds", optional=False),
)


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
        is_open=row["round"] == "open" and number(row, "pending") > 0,
        is_wide="bounds" in row,
    )


def kept_id(row: Row) -> str:
    """Return the id of a message that is kept."""
    return text(row, "message_id")


def unsent_put(entry: QueueEntry, expires_at: int) -> Put:
    """Return the write that lists what the queue did not take; *expires_at* is the end of the message's life."""
    return Put(_unsent_key(entry), {**UNSENT.row_of(entry), "ttl": expires_at // 1000 + GARBAGE_S})


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


SWEEP_ROWS = Declaration(Progress, sweep_key, "how far the sweep came", "never", "sweep", search=Fields())
