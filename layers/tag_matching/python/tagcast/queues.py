"""The ports of queues: the delivery queue, which keeps order, and one queue for each pull group."""

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
    """The subscriptions that a queue entry concerns: all, the ordered, or the unordered."""

    EVERYBODY = "everybody"
    IN_ORDER = "in_order"
    APART = "apart"


_TOPIC, _MESSAGE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}"), re.compile(r"[0-9]{1,20}")
_AUDIENCES, _SECTIONS_MAX = tuple(Audience), 100_000
PACK_MAX = 96
"""At most 96 messages share an entry, because one transaction adds at most 96 deliveries to a backlog."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A queue entry for one message, *message_id*, or for a pack, whose further message ids are *others*.

    *group* is the entry's message group in the queue. Ordered messages share a message group; every other entry has a
    group of its own. All messages of a pack have the same audience, and are of one message group or all unordered. An
    entry for one *section* of a wide message has no *others*.
    """

    topic: str
    message_id: str
    group: str
    audience: Audience = Audience.EVERYBODY
    others: tuple[str, ...] = ()
    section: int | None = None

    @property
    def has_order(self) -> bool:
        """Whether the entry shares its message group with other entries, whose order the queue keeps."""
        return self.group != own_group(self.message_id, self.section)

    @property
    def message_ids(self) -> tuple[str, ...]:
        """All message ids, in their order."""
        return (self.message_id, *self.others)

    @property
    def is_section(self) -> bool:
        """Whether the entry is for one section of a wide message."""
        return self.section is not None

    @property
    def is_plain(self) -> bool:
        """Whether the entry is for one whole message and all of its subscriptions."""
        return self.audience is Audience.EVERYBODY and not self.others and not self.is_section

    @property
    def deduplication_id(self) -> str:
        """The id by which the queue drops repetitions. It has a hash of the topic: two topics may use one message id.

        >>> QueueEntry("t", "1", "g", Audience.IN_ORDER).deduplication_id
        '1-in_order-e3b98a4da31a127d4bde6e43033f66ba'
        """
        packed = _digest(" ".join((self.topic, *self.others)))
        return f"{own_group(self.message_id, self.section)}-{self.audience}-{packed}"

    @property
    def rest(self) -> str:
        """A digest of all ids but the first; empty without *others*. It distinguishes packs with the same first id."""
        return _digest(" ".join(self.others)) if self.others else ""


def entry_text(entry: QueueEntry) -> str:
    """Return the text of an entry in the queue, without its message group.

    >>> entry_text(QueueEntry("t", "1", "1", Audience.APART))
    '{"topic": "t", "message_ids": ["1"], "audience": "apart"}'
    """
    fields = {"topic": entry.topic, "message_ids": entry.message_ids, "audience": entry.audience.value}
    return json.dumps(fields if entry.section is None else {**fields, "section": entry.section})


def entry_in(text: str, group: str) -> QueueEntry | None:
    """Return the entry that *text* describes, with the message group *group*; None for a text of another form.

    >>> entry_in('{"topic": "t", "message_ids": ["1", "2"], "audience": "apart"}', "1").message_ids
    ('1', '2')
    >>> entry_in('{"topic": "t", "message_ids": [], "audience": "apart"}', "1")
    """
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match fields:
        case {"topic": topic, "message_ids": [*ids], "audience": audience}:
            section = fields.get("section")
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
    """The FIFO delivery queue."""

    def send(self, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        """Send all entries in order, deduplicated by id for five minutes; return the entries that were not accepted.

        If an entry is not accepted, all later entries of its message group count as not accepted, too.
        """

    def give_back(self, receipts: Sequence[str], after_s: int = 0) -> None:
        """Make the messages of at most 10 SQS receipt handles visible again after *after_s* seconds.

        If the call fails, the messages become visible when their visibility timeout ends.
        """

    def delete(self, receipts: Sequence[str]) -> None:
        """Delete the messages of at most 10 SQS receipt handles. If the call fails, the messages stay."""


@dataclass(frozen=True, slots=True)
class GroupQueue:
    """The queue of a group. No later group uses the same queue. *ordered*: the queue is FIFO, so it keeps the order."""

    subscription_id: str
    ordered: bool

    @classmethod
    def of(cls, group: Subscription) -> GroupQueue:
        """Return the queue of a group."""
        return cls(group.subscription_id, group.settings.ordered)


@dataclass(frozen=True, slots=True)
class ReceivedEntry:
    """An entry that a group's queue returned for the *times*-th time.

    *receipt*, the SQS receipt handle, is valid until the visibility timeout ends. *entry_id* is the same each time the
    entry is received. A message that was sent twice has two entries.
    """

    message_id: str
    entry_id: str
    receipt: str
    times: int


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The approximate numbers of visible and of invisible entries in a group's queue."""

    waiting: int
    in_flight: int

    @property
    def has_any(self) -> bool:
        """Whether the queue has an entry."""
        return self.waiting + self.in_flight > 0


RECEIVED_MAX = 10
"""A queue returns at most 10 messages per call."""


class GroupQueues(Protocol):
    """The queues of all groups. A missing queue counts as empty.

    Failed calls raise UnavailableError, except `send` and `delete`.
    """

    def make(self, queue: GroupQueue) -> None:
        """Create the queue, unless it exists."""

    def remove(self, queue: GroupQueue) -> None:
        """Delete the queue with its content, if it exists."""

    def every(self) -> Iterable[GroupQueue]:
        """Return all existing queues, with or without a group."""

    def send(self, queue: GroupQueue, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        """Send all entries in order. Return the refused entries, with all later entries of their message groups."""

    def receive(
        self, queue: GroupQueue, *, limit: int, wait_s: int, visibility_timeout_s: int
    ) -> Sequence[ReceivedEntry]:
        """Return at most *limit* entries, waiting up to *wait_s* seconds for the first.

        The entries are hidden from other calls for *visibility_timeout_s* seconds. *limit* is at most RECEIVED_MAX.
        """

    def delete(self, queue: GroupQueue, receipts: Sequence[str]) -> None:
        """Delete entries by SQS receipt handle. An entry that could not be deleted is received again."""

    def hide(self, queue: GroupQueue, seconds: Mapping[str, int]) -> Collection[str]:
        """Hide entries: *seconds* maps SQS receipt handles to seconds from now. Return the handles that SQS refused.

        Raises UnavailableError if SQS failed to hide an entry with a valid handle. Other entries may then be hidden.
        """

    def counts(self, queue: GroupQueue) -> QueueCounts:
        """Return the approximate numbers of visible and of invisible entries."""


def queue_group(ordering: Ordering, topic: str, message_id: str, ordering_key: str | None) -> str:
    """Return the message group of a message in a FIFO queue (docs/protocol.md, Queue entries).

    An unordered message has a message group of its own: its id.

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
    """Return the message group of an unordered message; each section of a wide message has its own group.

    >>> own_group("1"), own_group("1", 2)
    ('1', '1#2')
    """
    return message_id if section is None else f"{message_id}#{section}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
