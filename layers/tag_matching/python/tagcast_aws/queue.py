"""The FIFO queue on SQS."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.ports import QueueEntry

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

BATCH_MAX = 10


class SqsQueue:
    """The port ``Queue``: what it could not send it returns, and the relay sends it again."""

    def __init__(self, client: SQSClient, queue_url: str, logger: Logger) -> None:
        self._client = client
        self._queue_url = queue_url
        self._logger = logger

    def send(self, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        """Send all in order, ten a request; return those that were not taken."""
        lost: list[QueueEntry] = []
        for start in range(0, len(entries), BATCH_MAX):
            lost += self._send_batch(entries[start : start + BATCH_MAX])
        return tuple(lost)

    def _send_batch(self, batch: Sequence[QueueEntry]) -> Sequence[QueueEntry]:
        requests = [_request(place, entry) for place, entry in enumerate(batch)]
        try:
            answer = self._client.send_message_batch(QueueUrl=self._queue_url, Entries=requests)
        except (ClientError, BotoCoreError) as error:
            self._logger.warning("queue send failed; the relay repeats it", extra={"error": type(error).__name__})
            return batch
        return [batch[int(failed["Id"])] for failed in answer.get("Failed", [])]


def _request(place: int, entry: QueueEntry) -> SendMessageBatchRequestEntryTypeDef:
    return {
        "Id": str(place),
        "MessageBody": json.dumps({"topic": entry.topic, "message_id": entry.message_id}),
        "MessageGroupId": entry.group,
        "MessageDeduplicationId": entry.message_id,
    }
