"""Shared by both consumers: their options, their batches, and the verdicts of listeners."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum

from tagcast_client.received import Pulled

LATER_S_MAX = 43_200
SHORTEST_S = 0.01
HEARTBEAT_S_MAX = 60
"""A member counts as alive for 120 s after a heartbeat."""
PULL_MAX = 32
"""A pull brings at most 32 messages."""


class MessageModel(StrEnum):
    """CLUSTERING: the members of a group share its messages. BROADCASTING: each member gets all messages."""

    CLUSTERING = "clustering"
    BROADCASTING = "broadcasting"


class ConsumeStatus(Enum):
    """The verdict of a listener on a batch. None means CONSUME_SUCCESS; an exception means RECONSUME_LATER."""

    CONSUME_SUCCESS = "success"
    RECONSUME_LATER = "later"


@dataclass(frozen=True, slots=True)
class Later:
    """A verdict: the batch becomes visible again after *delay_seconds*. Raises ValueError unless from 0 to 43,200."""

    delay_seconds: int

    def __post_init__(self) -> None:
        _check("a delay", self.delay_seconds, 0, LATER_S_MAX)


def _check(what: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{what} is from {least} to {most}, not {value}")


def member_id() -> str:
    """Return a unique member id: host, process, and a random number."""
    host = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:100]
    return f"{host}@{os.getpid()}#{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The options of a consumer. Durations are in seconds.

    The consumer handles at most *consume_thread_max* batches at the same time, each of at most
    *consume_message_batch_max_size* messages. It pulls no further messages meanwhile. While a listener works, the
    consumer extends the visibility timeout every *prolong_seconds*, by default a third of the timeout. Messages of a
    failed batch become visible again after *suspend_seconds*; then each message is a batch of its own. A pull waits for
    messages for at most *wait_seconds*; after an empty pull the consumer pauses for *pull_interval_seconds*. An idle
    consumer shuts down within a second. Lists of members show *member_version*, a text of your choice.

    If *ordered*, one member at a time gets the messages of the topic or a key, batch after batch. The order is set when
    the group is created. *start_from* is the start of a new group: ``latest``, ``earliest``, or an instant (RFC 3339).
    Without *member_id*, each consumer gets a random id when it starts. Raises ValueError for a number out of bounds.
    """

    member_id: str | None = None
    member_version: str = ""
    message_model: MessageModel = MessageModel.CLUSTERING
    ordered: bool = False
    start_from: str | datetime = "latest"
    consume_thread_max: int = 4
    consume_message_batch_max_size: int = 10
    visibility_timeout_seconds: int = 60
    prolong_seconds: float | None = None
    suspend_seconds: int = 10
    wait_seconds: int = 20
    pull_interval_seconds: float = 0.0
    heartbeat_seconds: float = 30.0

    def __post_init__(self) -> None:
        _check("consume_thread_max", self.consume_thread_max, 1, 1_000)
        _check("consume_message_batch_max_size", self.consume_message_batch_max_size, 1, 1_024)
        _check("visibility_timeout_seconds", self.visibility_timeout_seconds, 10, LATER_S_MAX)
        _check("suspend_seconds", self.suspend_seconds, 0, LATER_S_MAX)
        _check("wait_seconds", self.wait_seconds, 0, 20)
        _check("pull_interval_seconds", self.pull_interval_seconds, 0, LATER_S_MAX)
        _check("heartbeat_seconds", self.heartbeat_seconds, SHORTEST_S, HEARTBEAT_S_MAX)
        if self.prolong_seconds is not None:  # Later, the messages would be visible to other members already.
            _check("prolong_seconds", self.prolong_seconds, SHORTEST_S, self.visibility_timeout_seconds - 1)

    def messages_max(self, slots: int) -> int:
        """Return how many messages to pull. *slots* is the number of further batches that can be handled now."""
        return min(PULL_MAX, slots * self.consume_message_batch_max_size)

    def delay_s(self, verdict: object) -> int | None:
        """Return the seconds until a batch becomes visible again, or None if the batch is done.

        Raises TypeError if *verdict* is no verdict of a listener.

        >>> options = ConsumerOptions()
        >>> options.delay_s(None), options.delay_s(ConsumeStatus.RECONSUME_LATER), options.delay_s(Later(300))
        (None, 10, 300)
        """
        match verdict:
            case Later():
                return verdict.delay_seconds
            case ConsumeStatus.RECONSUME_LATER:
                return self.suspend_seconds
            case None | ConsumeStatus.CONSUME_SUCCESS:
                return None
        raise TypeError(f"a listener must return None, a ConsumeStatus or Later, not {verdict!r}")


@dataclass(slots=True, eq=False)
class Batch:
    """Messages of *topic* for one call of a listener. *handles* are their current receipt handles.

    *delay_s* is the delay in seconds if the batch is nacked. It is None if the batch is not nacked.
    """

    topic: str
    messages: Sequence[Pulled]
    handles: list[str]
    delay_s: int | None = None

    @classmethod
    def split(cls, topic: str, messages: Sequence[Pulled], size: int) -> list[list[Batch]]:
        """Split pulled messages into parts of at most *size* messages, one part for each slot.

        A part is usually one batch. If a message of the part was pulled before, the part has one batch for each
        message. In a common batch, a message that always fails would use up the attempts of the other messages.
        """
        parts = [messages[start : start + size] for start in range(0, len(messages), size)]
        return [
            [cls(topic, [each], [each.receipt_handle]) for each in part]
            if any(each.attempt > 1 for each in part)
            else [cls(topic, part, [each.receipt_handle for each in part])]
            for part in parts
        ]

    @classmethod
    def join(cls, batches: Sequence[Batch]) -> Batch:
        """Return one batch with the messages of all *batches*. All must have the same topic."""
        messages = [message for batch in batches for message in batch.messages]
        return cls(batches[0].topic, messages, [handle for batch in batches for handle in batch.handles])

    def ids_of(self, handles: Collection[str]) -> list[str]:
        """Return the ids of the messages with these receipt handles."""
        pairs = zip(self.messages, self.handles, strict=True)
        return [message.message_id for message, handle in pairs if handle in handles]

    @staticmethod
    def together(batches: Iterable[Batch], most: int) -> list[tuple[str, list[Batch]]]:
        """Group *batches* into requests. Each request has one topic, and at most *most* handles.

        A batch with more handles has a request of its own. Return the topic and the batches of each request.
        """
        found: list[tuple[str, list[Batch]]] = []
        for batch in sorted(batches, key=lambda batch: batch.topic):
            last = found[-1] if found and found[-1][0] == batch.topic else None
            if last is None or sum(len(each.handles) for each in last[1]) + len(batch.handles) > most:
                found.append((batch.topic, [batch]))
            else:
                last[1].append(batch)
        return found
