"""Changes that could not be archived: objects of a bucket, which a queue names until they are archived.

Lambda keeps a batch that the function refused until it was too old (lambda/latest/dg/services-dynamodb-errors.html):
its ``payload`` is what the function was given, as text. The function keeps a change that it cannot read likewise.
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
"""The queue names an object again after this time, if it was not archived: later than the invocation ends."""
Change = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KeptBatch:
    """Changes of one object, as the function is given them. There are none if the object is gone."""

    key: str
    receipt: str
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class KeptChanges:
    """The bucket and its queue; *client* makes the client of a service."""

    client: Callable[[str], Any]
    bucket: str
    queue_url: str
    logger: Logger

    def keep(self, change: Change) -> bool:
        """Keep a change of the stream; say whether S3 took it. The same change is the same object."""
        content = json.dumps({"payload": json.dumps({"Records": [change]})})
        key = f"unread/{change['eventID']}"
        try:
            self.client("s3").put_object(Bucket=self.bucket, Key=key, Body=content.encode())
        except (BotoCoreError, ClientError) as error:
            self.logger.warning("a change was not kept", extra={"error": type(error).__name__})
            return False
        return True

    def receive(self) -> KeptBatch | None:
        """Return a kept batch that the queue names, or None when it names none."""
        request = {"QueueUrl": self.queue_url, "MaxNumberOfMessages": 1, "VisibilityTimeout": AGAIN_S}
        messages = self.client("sqs").receive_message(**request, WaitTimeSeconds=1).get("Messages", [])
        if not messages:
            return None
        key = json.loads(messages[0]["Body"])["detail"]["object"]["key"]
        return KeptBatch(key, messages[0]["ReceiptHandle"], self._changes(key))

    def remove(self, batch: KeptBatch) -> None:
        """Remove a batch that is archived."""
        self.client("s3").delete_object(Bucket=self.bucket, Key=batch.key)
        self.client("sqs").delete_message(QueueUrl=self.queue_url, ReceiptHandle=batch.receipt)

    def _changes(self, key: str) -> Sequence[Change]:
        s3 = self.client("s3")
        try:
            content = s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except s3.exceptions.NoSuchKey:
            return ()
        changes: Sequence[Change] = json.loads(json.loads(content)["payload"])["Records"]
        return changes
