"""The queues of the service, as ports: the one that gives order to all, and one for each pull group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tagcast.model import Subscription


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """What travels through a queue: the message's name, in its order's group; without an order in one of its own."""

    topic: str
    message_id: str
    group: str

    @property
    def has_order(self) -> bool:
        """Say whether the message stands in an order with others."""
        return self.group != self.message_id


class Queue(Protocol):
    """The FIFO queue that gives order."""

    def send(self, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        """Send all in order, deduplicated by message id for five minutes; return those that were not taken.

        Behind an entry that was not taken no other of its group counts as taken.
        """


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


class GroupQueues(Protocol):
    """The queues of all pull groups. Calls that fail raise UnavailableError, unless they say otherwise."""

    def make(self, queue: GroupQueue) -> None:
        """Make the queue, unless it is there."""

    def remove(self, queue: GroupQueue) -> None:
        """Remove the queue with all that it holds, if it is there."""
