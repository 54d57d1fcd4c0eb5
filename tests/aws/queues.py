"""What a queue of SQS holds: messages in their groups, what is in flight, which sends were already taken."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tests.aws import limits
from tests.aws.faults import ApiError
from tests.aws.solo_timeline import Timeline


@dataclass(slots=True, eq=False)
class QueuedMessage:
    """One message; *visible_at* lies in the future while it is in flight."""

    message_id: str
    body: str
    attributes: Mapping[str, Any]
    group: str | None
    deduplication: str | None
    sent_at: int
    visible_at: int
    receives: int = 0
    receipt: str = ""

    def in_flight(self, now: int) -> bool:
        """Whether a consumer has it."""
        return self.receives > 0 and self.visible_at > now

    @property
    def system_attributes(self) -> dict[str, str]:
        """What SQS says of it to consumers, as far as the shipped code reads it."""
        said = {
            "SentTimestamp": str(self.sent_at),
            "ApproximateReceiveCount": str(self.receives),
        }
        if self.group is not None:
            said["MessageGroupId"] = self.group
        if self.deduplication is not None:
            said["MessageDeduplicationId"] = self.deduplication
        return said


@dataclass
class Queue:
    """One queue, made of the properties that CloudFormation takes."""

    name: str
    url: str
    arn: str
    timeline: Timeline
    properties: Mapping[str, Any]
    lines: dict[str, deque[QueuedMessage]] = field(default_factory=dict)
    """Messages that are not deleted, by group; those of a standard queue stand alone."""
    taken: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    told: list[Callable[[QueuedMessage], None]] = field(default_factory=list)
    """Are told of each message that is taken, and of each that is made visible again."""
    given: list[Callable[[QueuedMessage], None]] = field(default_factory=list)
    """Are told of each message that is handed out."""
    dropped: list[Callable[[QueuedMessage], None]] = field(default_factory=list)
    """Are told of each message that is deleted."""
    looked_at: int = 0
    """When a consumer asked last for what is in it."""
    _receipts: dict[str, tuple[str, QueuedMessage]] = field(default_factory=dict)
    _serial: int = 0

    @property
    def fifo(self) -> bool:
        return bool(self.properties.get("FifoQueue"))

    @property
    def visibility_s(self) -> int:
        return int(self.properties.get("VisibilityTimeout", 30))

    @property
    def high_throughput(self) -> bool:
        return self.properties.get("FifoThroughputLimit") == "perMessageGroupId"

    def messages(self) -> Iterator[QueuedMessage]:
        """All messages that are not deleted."""
        for line in self.lines.values():
            yield from line

    def send(self, body: str, group: str | None, deduplication: str | None, attributes: Mapping[str, Any]) -> str:
        """Take a message; return its id, or that of the one with its deduplication id within five minutes."""
        now = self.timeline.now
        self._serial += 1
        message_id = f"{self._serial:08x}-0000-4000-8000-000000000000"
        if deduplication is not None:
            in_group = self.properties.get("DeduplicationScope") == "messageGroup"
            scope = ((group or "") if in_group else "", deduplication)
            known = self.taken.get(scope)
            if known is not None and known[0] > now:
                return known[1]
            self.taken[scope] = (now + 1000 * limits.SQS_DEDUPLICATION_S, message_id)
        message = QueuedMessage(message_id, body, attributes, group, deduplication, now, now)
        line = group if self.fifo and group is not None else message_id
        self.lines.setdefault(line, deque()).append(message)
        for tell in self.told:
            tell(message)
        return message_id

    def receive(self, most: int = 10, visibility_s: int | None = None) -> list[QueuedMessage]:
        """Hand out messages: of a group in their order, and none while any of it is in flight."""
        now = self.looked_at = self.timeline.now
        hidden_until = now + 1000 * (self.visibility_s if visibility_s is None else visibility_s)
        handed: list[QueuedMessage] = []
        for name, line in list(self.lines.items()):
            self._forget_old(name, line, now)
            if not line or any(each.in_flight(now) for each in islice(line, limits.SQS_BATCH_MAX)):
                continue
            for message in line:
                if len(handed) == most or message.visible_at > now:
                    break
                self._hand(name, message, hidden_until)
                handed.append(message)
            if len(handed) == most:
                break
        return handed

    def delete(self, receipt: str) -> None:
        """Forget a message; a receipt of an earlier receive is worth nothing in a FIFO queue."""
        line, message = self._held(receipt)
        messages = self.lines.get(line, ())
        is_former = message.receipt != receipt
        if self.fifo and (is_former or (message in messages and message.visible_at <= self.timeline.now)):
            raise ApiError(
                "InvalidParameterValue",
                f"Value {receipt} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
            )
        if is_former or message not in messages:
            return
        self.lines[line].remove(message)
        if not self.lines[line]:
            del self.lines[line]
        for tell in self.dropped:
            tell(message)

    def change_visibility(self, receipt: str, seconds: int) -> None:
        """Let a message in flight be visible so many seconds from now."""
        _, message = self._held(receipt)
        now = self.timeline.now
        if message.receipt != receipt or not message.in_flight(now):
            raise ApiError("MessageNotInflight", "The specified message isn't in flight.")
        message.visible_at = now + 1000 * seconds
        if not seconds:
            for tell in self.told:
                tell(message)

    def in_flight(self) -> int:
        """How many messages consumers have now."""
        now = self.timeline.now
        return sum(message.in_flight(now) for message in self.messages())

    def event_of(self, message: QueuedMessage, region: str) -> dict[str, Any]:
        """The message as Lambda hands it to a function."""
        return {
            "messageId": message.message_id,
            "receiptHandle": message.receipt,
            "body": message.body,
            "attributes": message.system_attributes,
            "messageAttributes": {
                name: {key[0].lower() + key[1:]: value for key, value in attribute.items()}
                for name, attribute in message.attributes.items()
            },
            "md5OfBody": md5(message.body),
            "eventSource": "aws:sqs",
            "eventSourceARN": self.arn,
            "awsRegion": region,
        }

    def _hand(self, line: str, message: QueuedMessage, hidden_until: int) -> None:
        message.receives += 1
        message.visible_at = hidden_until
        message.receipt = f"{message.message_id}#{message.receives}"
        self._receipts[message.receipt] = (line, message)
        for tell in self.given:
            tell(message)

    def _held(self, receipt: str) -> tuple[str, QueuedMessage]:
        found = self._receipts.get(receipt)
        if found is None:
            raise ApiError("ReceiptHandleIsInvalid", "The specified receipt handle isn't valid.")
        return found

    def _forget_old(self, name: str, line: deque[QueuedMessage], now: int) -> None:
        kept_ms = 1000 * int(self.properties.get("MessageRetentionPeriod", 345_600))
        while line and line[0].sent_at + kept_ms <= now:
            line.popleft()
        if not line:
            del self.lines[name]


def md5(text: str) -> str:
    """The digest that SQS answers."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
