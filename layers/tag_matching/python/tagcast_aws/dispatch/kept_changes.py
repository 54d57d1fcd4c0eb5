"""Changes that could not be archived: objects in a bucket, listed in a queue until they are archived.

Lambda stores a refused batch when it is too old to be retried (lambda/latest/dg/services-dynamodb-errors.html). The
object's ``payload`` is the function's input. AWS does not say whether the payload is a text or an object, so both are
read. The function `archive` stores an unreadable change in the same form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

AGAIN_S = 120
"""The queue's visibility timeout in seconds. An invocation ends earlier, so only failed objects are received again."""
Change = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KeptBatch:
    """The changes in the object *key*, in the form of the stream; empty if the object was deleted.

    *receipt* is the SQS receipt handle of the queue entry that names the object.
    """

    key: str
    receipt: str
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class KeptChanges:
    """The bucket with the kept changes, and the queue with an entry for each object of the bucket.

    *client* takes the name of an AWS service and returns its client.
    """

    client: Callable[[str], Any]
    bucket: str
    queue_url: str
    logger: Logger

    def keep(self, change: Change) -> bool:
        """Store a change of the stream; return whether S3 accepted it. The object's name is derived from the change."""
        content = json.dumps({"payload": json.dumps({"Records": [change]})})
        key = f"unread/{change['eventID']}"
        try:
            self.client("s3").put_object(Bucket=self.bucket, Key=key, Body=content.encode())
        except (BotoCoreError, ClientError) as error:
            self.logger.warning("a change was not kept", extra={"error": type(error).__name__})
            return False
        return True

    def receive(self) -> KeptBatch | None:
        """Return a stored batch from the queue, or None if the queue is empty."""
        request = {"QueueUrl": self.queue_url, "MaxNumberOfMessages": 1, "VisibilityTimeout": AGAIN_S}
        messages = self.client("sqs").receive_message(**request, WaitTimeSeconds=1).get("Messages", [])
        if not messages:
            return None
        key = json.loads(messages[0]["Body"])["detail"]["object"]["key"]
        return KeptBatch(key, messages[0]["ReceiptHandle"], self._changes(key))

    def remove(self, batch: KeptBatch) -> None:
        """Delete the object of a batch, and its queue entry."""
        self.client("s3").delete_object(Bucket=self.bucket, Key=batch.key)
        self.client("sqs").delete_message(QueueUrl=self.queue_url, ReceiptHandle=batch.receipt)

    def _changes(self, key: str) -> Sequence[Change]:
        s3 = self.client("s3")
        try:
            content = s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except s3.exceptions.NoSuchKey:
            return ()
        payload = json.loads(content)["payload"]
        changes: Sequence[Change] = (json.loads(payload) if isinstance(payload, str) else payload)["Records"]
        return changes
