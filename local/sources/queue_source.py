"""Invokes a function for the messages of an SQS queue, as Lambda's event source mapping does."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from local.engine.engine_calls import EngineCallError, EngineCalls
from local.functions.places import topic_of_entry
from local.functions.quick_json import encode
from local.sources.batch_result import Invoke, failed_items

# On AWS failed messages return after their visibility timeout (minutes), too long for local use.
RETRY_S = 5
LONG_POLL_S = 1
TURNS, LASTS_S = 2, 0.5
"""At most two batches overlap. A batch that lasts longer than half a second does not count."""
TOPICS_AT_ONCE = 64


@dataclass
class QueueSource:
    """Receives messages from one queue and invokes one function for them. Each call of `step` handles what it receives.

    `calls` has the permissions of the function, as on AWS. `owner` has all permissions. By `owner`, the source makes
    failed messages visible again sooner than on AWS. The queue itself keeps the order of a message group. While
    messages of the group are in flight, the queue returns no others.
    """

    calls: EngineCalls
    owner: EngineCalls
    queue_url: str
    queue_arn: str
    function: str
    invoke: Invoke
    batch_size: int = 10
    warn: Callable[[str], None] = print
    _turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(TURNS), init=False)
    _beside: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(TOPICS_AT_ONCE), init=False)

    def step(self) -> int:
        """Receive messages and invoke the function for them. Return their number.

        At most two received batches are handled at the same time, so that new messages gather into full batches. A
        batch that lasts longer than :data:`LASTS_S` seconds no longer counts, so it blocks no other batch. Each event
        has the messages of one topic. AWS allows such events. Here they help because the stack has few workers.
        """
        if not self._turns.acquire(timeout=LONG_POLL_S):
            return 0
        try:
            messages = self._receive()
            batches = [self._beside.submit(self._handle, batch) for batch in by_topic(messages)]
            wait(batches, LASTS_S)
        finally:
            self._turns.release()
        for batch in batches:
            batch.result()
        return len(messages)

    def _handle(self, messages: list[dict[str, Any]]) -> None:
        event = {"Records": [self.record(message) for message in messages]}
        invocation = self.invoke(self.function, encode(event))
        failed = failed_items(invocation, [message["MessageId"] for message in messages])
        self._delete([message for message in messages if message["MessageId"] not in failed])
        left = [message["ReceiptHandle"] for message in messages if message["MessageId"] in failed]
        if again := [receipt for receipt in left if self._shows_again(receipt, RETRY_S)]:
            self.warn(f"{self.function}: {len(again)} of {len(messages)} queue messages will be tried again")

    def _receive(self) -> list[dict[str, Any]]:
        request = {
            "QueueUrl": self.queue_url,
            "MaxNumberOfMessages": min(10, self.batch_size),
            "WaitTimeSeconds": LONG_POLL_S,
            "MessageSystemAttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        }
        return list(self.calls.call("sqs", "ReceiveMessage", request).get("Messages", []))

    def record(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return a received message as a record of Lambda's event."""
        return {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message.get("Attributes", {}),
            "messageAttributes": {
                name: {key[0].lower() + key[1:]: value for key, value in attribute.items()}
                for name, attribute in message.get("MessageAttributes", {}).items()
            },
            "md5OfBody": message.get("MD5OfBody", ""),
            "eventSource": "aws:sqs",
            "eventSourceARN": self.queue_arn,
            "awsRegion": self.queue_arn.split(":")[3],
        }

    def _delete(self, messages: list[dict[str, Any]]) -> None:
        if messages:
            entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
            self.calls.call("sqs", "DeleteMessageBatch", {"QueueUrl": self.queue_url, "Entries": entries})

    def _shows_again(self, receipt: str, after_s: int) -> bool:
        """Make a message visible after *after_s* seconds. Return False if its receipt handle is no longer valid.

        This is so if the function made the message visible, or another batch received or deleted it.
        """
        request = {"QueueUrl": self.queue_url, "ReceiptHandle": receipt, "VisibilityTimeout": after_s}
        try:
            self.owner.call("sqs", "ChangeMessageVisibility", request)
        except EngineCallError:
            return False
        return True


def by_topic(messages: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group received messages by topic, in their order. Messages without a topic are one group.

    >>> [len(batch) for batch in by_topic([{"Body": '{"topic": "t"}'}, {"Body": "?"}, {"Body": '{"topic": "t"}'}])]
    [2, 1]
    """
    found: defaultdict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for message in messages:
        found[topic_of_entry(message["Body"])].append(message)
    return list(found.values())
