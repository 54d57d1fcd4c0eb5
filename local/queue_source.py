"""Plays Lambda's event source mapping of an SQS queue: batches, partial failures, groups in order."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from local.batch_result import Invoke, failed_items

# On AWS what failed comes back when its visibility ends (minutes); nobody wants to wait that long here.
RETRY_S = 5
LONG_POLL_S = 2


@dataclass(frozen=True)
class QueueSource:
    """Takes from one queue and invokes one function; run `step` in as many threads as batches may overlap.

    The queue itself keeps the order: a group whose messages are in flight yields no others.
    """

    sqs: Any
    queue_url: str
    queue_arn: str
    function: str
    invoke: Invoke
    batch_size: int = 10
    warn: Callable[[str], None] = print

    def step(self) -> int:
        """Handle one batch; answers how many messages it took."""
        received = self.sqs.receive_message(
            QueueUrl=self.queue_url,
            MaxNumberOfMessages=min(10, self.batch_size),
            WaitTimeSeconds=LONG_POLL_S,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        messages = received.get("Messages", [])
        if not messages:
            return 0
        event = {"Records": [self.record(message) for message in messages]}
        invocation = self.invoke(self.function, json.dumps(event).encode())
        failed = failed_items(invocation, [message["MessageId"] for message in messages])
        if failed:
            self.warn(f"{self.function}: {len(failed)} of {len(messages)} queue messages will be tried again")
        done = [message for message in messages if message["MessageId"] not in failed]
        self._delete(done)
        self._give_back([message for message in messages if message["MessageId"] in failed])
        return len(messages)

    def record(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A received message in the shape in which Lambda hands it to a function."""
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
            self.sqs.delete_message_batch(QueueUrl=self.queue_url, Entries=entries)

    def _give_back(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            self.sqs.change_message_visibility(
                QueueUrl=self.queue_url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=RETRY_S
            )
