"""The queues of the service, as ports: the one that gives order to all, and one for each pull group."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Protocol

from tagcast.model import Ordering, Subscription


class Audience(StrEnum):
    """The subscriptions that an entry brings its message to: those that keep an order, the others, or both."""

    EVERYBODY = "everybody"
    IN_ORDER = "in_order"
    APART = "apart"


_TOPIC, _MESSAGE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}"), re.compile(r"[0-9]{1,20}")
_AUDIENCES, _SECTIONS_MAX = tuple(Audience), 100_000
PACK_MAX = 96
"""At most 96 messages travel in one entry, because as many join a backlog in one transaction."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """What travels through a queue: a message's name, in its order's group; without an order in one of its own.

    A pack has *others* behind the first message, of the same order or without any, for the same audience of each.
    What is for one *section* of a wide message's map only travels alone.
    """

    topic: str
    message_id: str
    group: str
    audience: Audience = Audience.EVERYBODY
    others: tuple[str, ...] = ()
    section: int | None = None

    @property
    def has_order(self) -> bool:
        """Say whether the message stands in an order with others."""
        return self.group != own_group(self.message_id, self.section)

    @property
    def message_ids(self) -> tuple[str, ...]:
        """Return all that it names, in their order."""
        return (self.message_id, *self.others)

    @property
    def is_section(self) -> bool:
        """Say whether it is for one section of a wide message."""
        return self.section is not None

    @property
    def is_plain(self) -> bool:
        """Say whether it is one whole message for everybody."""
        return self.audience is Audience.EVERYBODY and not self.others and not self.is_section

    @property
    def deduplication_id(self) -> str:
        """Return by what the queue knows that it took this before.

        >>> QueueEntry("t", "1", "g").deduplication_id, QueueEntry("t", "1", "g", Audience.IN_ORDER).deduplication_id
        ('1-everybody', '1-in_order')
        """
        rest = f"-{self.rest}" if self.others else ""
        return f"{own_group(self.message_id, self.section)}-{self.audience}{rest}"

    @property
    def rest(self) -> str:
        """Return what tells a pack from others that begin with the same message; empty without others."""
        return _digest(" ".join(self.others)) if self.others else ""


def entry_text(entry: QueueEntry) -> str:
    """Return what the queue carries of an entry, beside its group.

    >>> entry_text(QueueEntry("t", "1", "1", Audience.APART))
    '{"topic": "t", "message_ids": ["1"], "audience": "apart"}'
    """
    said = {"topic": entry.topic, "message_ids": entry.message_ids, "audience": entry.audience.value}
    return json.dumps(said if entry.section is None else {**said, "section": entry.section})


def entry_in(text: str, group: str) -> QueueEntry | None:
    """Return the entry that the queue carried as *text* in *group*; None if :func:`entry_text` writes no such text.

    >>> entry_in('{"topic": "t", "message_ids": ["1", "2"], "audience": "apart"}', "1").message_ids
    ('1', '2')
    >>> entry_in('{"topic": "t", "message_ids": [], "audience": "apart"}', "1")
    """
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match said:
        case {"topic": topic, "message_ids": [*ids], "audience": audience}:
            section = said.get("section")
        case _:
            return None
    names_are = 0 < len(ids) <= PACK_MAX and _is(_TOPIC, topic) and all(_is(_MESSAGE_ID, each) for each in ids)
    section_is = section is None or (type(section) is int and 0 <= section < _SECTIONS_MAX)
    if not (names_are and section_is and audience in _AUDIENCES):
        return None
    return QueueEntry(topic, ids[0], group, Audience(audience), tuple(ids[1:]), section)


def _is(pattern: re.Pattern[str], name: object) -> bool:
    return isinstance(name, str) and pattern.fullmatch(name) is not None


class Queue(Protocol):
    """The FIFO queue that gives order."""

    def send(self, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        """Send all in order, deduplicated by their own id for five minutes; return those that were not taken.

        Behind an entry that was not taken no other of its group counts as taken.
        """

    def give_back(self, receipts: Sequence[str], after_s: int = 0) -> None:
        """Let what was received under *receipts* (at most 10) come again *after_s*; after a fault it comes later."""

    def delete(self, receipts: Sequence[str]) -> None:
        """Take what was received under *receipts* (at most 10) out of the queue; after a fault it stays there."""


@dataclass(frozen=True, slots=True)
class GroupQueue:
    """The queue of the pull group *subscription_id*; an *ordered* one lets an order be in flight in one batch only.

    No such id is ever used again, so neither is a queue.
    """

    subscription_id: str
    ordered: bool

    @classmethod
    def of(cls, group: Subscription) -> GroupQueue:
        """Return the queue of a group."""
        return cls(group.subscription_id, group.settings.ordered)


@dataclass(frozen=True, slots=True)
class Received:
    """An entry as a group's queue gave it out: the *times*-th time, under *receipt* as long as it is invisible.

    *entry_id* is the same each time; a message that was sent twice lies there as two entries.
    """

    message_id: str
    entry_id: str
    receipt: str
    times: int


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """About how many entries of a group's queue wait for a pull, and how many are invisible."""

    waiting: int
    in_flight: int


RECEIVED_MAX = 10
"""A queue gives at most 10 messages at once."""


class GroupQueues(Protocol):
    """The queues of all pull groups.

    Calls that fail raise UnavailableError, but for `send`, `delete` and `hide`. A queue that is not there takes nothing
    and gives nothing.
    """

    def make(self, queue: GroupQueue) -> None:
        """Make the queue, unless it is there."""

    def remove(self, queue: GroupQueue) -> None:
        """Remove the queue with all that it holds, if it is there."""

    def every(self) -> Iterable[GroupQueue]:
        """Return all queues there are, whether their groups are or not."""

    def send(self, queue: GroupQueue, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        """Send all in order; return those that were not taken, and all that stand behind one of them in its order."""

    def receive(self, queue: GroupQueue, *, limit: int, wait_s: int, visibility_timeout_s: int) -> Sequence[Received]:
        """Return at most *limit* entries, waiting up to *wait_s* for the first.

        They are invisible to others for *visibility_timeout_s*. *limit* is RECEIVED_MAX at most.
        """

    def delete(self, queue: GroupQueue, receipts: Sequence[str]) -> None:
        """Take entries out of the queue; one that stays there comes again."""

    def hide(self, queue: GroupQueue, seconds: Mapping[str, int]) -> Collection[str]:
        """Keep entries invisible for their seconds from now, by receipt; return the receipts that are not valid.

        Raises UnavailableError, too, where that was done for some of them only.
        """

    def counts(self, queue: GroupQueue) -> QueueCounts:
        """Return about how much lies in the queue."""


def queue_group(ordering: Ordering, topic: str, message_id: str, ordering_key: str | None) -> str:
    """Return the queue's message group: one order per group (docs/protocol.md, Publishing).

    What stands in no order is a group of its own, named like the message.

    >>> queue_group(Ordering.TOPIC, "t", "1", "k") == queue_group(Ordering.TOPIC, "t", "2", None)
    True
    >>> queue_group(Ordering.KEY, "t", "1", "k") == queue_group(Ordering.KEY, "t", "2", "k")
    True
    >>> queue_group(Ordering.KEY, "t", "1", None) == queue_group(Ordering.KEY, "t", "2", None)
    False
    """
    if ordering is Ordering.TOPIC:
        return _digest(topic)
    if ordering is Ordering.KEY and ordering_key is not None:
        return _digest(f"{topic}\x00{ordering_key}")
    return message_id


def own_group(message_id: str, section: int | None = None) -> str:
    """Return the message group of what stands in no order with others: each section of a map has its own.

    >>> own_group("1"), own_group("1", 2)
    ('1', '1#2')
    """
    return message_id if section is None else f"{message_id}#{section}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
