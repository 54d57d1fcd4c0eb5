"""What consumers of both kinds share: their options, how expressions are written, what a listener's answer means."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum

from tagcast_client.filters import Filter, SqlDialect, SqlFilter, TagExpressionFilter
from tagcast_client.group_models import Pulled

PULL_MAX = 32
"""A pull brings at most 32 messages."""


class MessageModel(StrEnum):
    """Whether members of a group share its messages, or each gets all of them."""

    CLUSTERING = "clustering"
    BROADCASTING = "broadcasting"


class ConsumeStatus(Enum):
    """What a listener answers of a batch. No answer means success, an exception later."""

    CONSUME_SUCCESS = "success"
    RECONSUME_LATER = "later"


@dataclass(frozen=True, slots=True)
class Later:
    """The answer of a listener that wants its batch again after *delay_seconds*, at most 43,200."""

    delay_seconds: int


class MessageSelector:
    """Filters as users of RocketMQ write them."""

    @staticmethod
    def by_tag(expression: str) -> TagExpressionFilter:
        """Return the filter of a tag expression such as ``TagA || TagB``, or ``*`` for everything."""
        return Filter.tag_expression(expression)

    @staticmethod
    def by_sql(expression: str, dialect: SqlDialect = "strict") -> SqlFilter:
        """Return the filter of an SQL92 expression; the dialect ``rocketmq`` reads it with all that one's traps."""
        return Filter.sql(expression, dialect=dialect)


def client_id() -> str:
    """Return an id that no other consumer has: host, process, and chance."""
    host = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:100]
    return f"{host}@{os.getpid()}#{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """How a consumer works. Durations are in seconds.

    At most *consume_thread_max* batches of at most *consume_message_batch_max_size* messages are worked on beside each
    other, and no more are pulled. A message is nobody else's for *invisible_seconds*; while a listener works on it that
    begins anew every *prolong_seconds*, by default a third of it. *suspend_seconds* after a failure it comes again. A
    pull waits for *wait_seconds*; after one that brought nothing the consumer rests for *pull_interval_seconds*. A
    consumer that has nothing to do shuts down within a second.

    *orderly*: messages of one order go to one member at a time, batch after batch; a group is made for that or not.
    *consume_from_where* is asked of a group that this consumer makes: ``latest``, ``earliest``, or an instant (RFC
    3339) since when it gets what is kept.
    """

    client_id: str = field(default_factory=client_id)
    client_version: str = ""
    message_model: MessageModel = MessageModel.CLUSTERING
    orderly: bool = False
    consume_from_where: str | datetime = "latest"
    consume_thread_max: int = 4
    consume_message_batch_max_size: int = 10
    invisible_seconds: int = 60
    prolong_seconds: float | None = None
    suspend_seconds: int = 10
    wait_seconds: int = 20
    pull_interval_seconds: float = 0.0
    heartbeat_seconds: float = 30.0

    def wanted(self, slots: int) -> int:
        """Return how many messages to pull when this number of batches can be worked on."""
        return min(PULL_MAX, slots * self.consume_message_batch_max_size)

    def delay_s(self, verdict: object) -> int | None:
        """Return after how long a listener wants its batch again; None when it is done with it.

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
        raise TypeError(f"a listener answers None, a ConsumeStatus or Later, not {verdict!r}")


@dataclass(slots=True, eq=False)
class Batch:
    """What a listener works on, and the handles by which it is known now."""

    topic: str
    messages: Sequence[Pulled]
    handles: list[str]

    @classmethod
    def several(cls, topic: str, messages: Sequence[Pulled], size: int) -> list[Batch]:
        """Cut what a pull brought into batches of at most *size*."""
        parts = [messages[start : start + size] for start in range(0, len(messages), size)]
        return [cls(topic, part, [message.receipt_handle for message in part]) for part in parts]
