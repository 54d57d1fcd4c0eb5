"""The queues of pull groups on SQS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.errors import UnavailableError
from tagcast.ids import ordinal_of, topic_id_of
from tagcast.ports import GroupQueue

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

RETENTION_S = 4 * 86_400
"""Longer than any message lives (a day) and is invisible after that (half a day)."""
_ABSENT = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")


class SqsGroupQueues:
    """The port ``GroupQueues``: a queue is named after its group, behind *prefix*, beside the queue at *queue_url*."""

    def __init__(self, client: SQSClient, queue_url: str, prefix: str) -> None:
        self._client = client
        self._folder = queue_url.rpartition("/")[0]
        self._prefix = prefix

    def make(self, queue: GroupQueue) -> None:
        """Make the queue, unless it is there."""
        attributes: dict[QueueAttributeNameType, str] = {
            "MessageRetentionPeriod": str(RETENTION_S),
            "SqsManagedSseEnabled": "true",
        }
        if queue.ordered:
            attributes |= {
                "FifoQueue": "true",
                "DeduplicationScope": "messageGroup",
                "FifoThroughputLimit": "perMessageGroupId",
            }
        try:
            self._client.create_queue(QueueName=queue_name(self._prefix, queue), Attributes=attributes)
        except (ClientError, BotoCoreError) as error:
            raise _unavailable(error) from error

    def remove(self, queue: GroupQueue) -> None:
        """Remove the queue with all that it holds, if it is there."""
        try:
            self._client.delete_queue(QueueUrl=self._url(queue))
        except (ClientError, BotoCoreError) as error:
            if not _is_absent(error):
                raise _unavailable(error) from error

    def _url(self, queue: GroupQueue) -> str:
        return f"{self._folder}/{queue_name(self._prefix, queue)}"


def queue_name(prefix: str, queue: GroupQueue) -> str:
    """Return the name of a group's queue, which says whose it is.

    >>> queue_name("tagcast-group-", GroupQueue("07457000000000000001.3", ordered=True))
    'tagcast-group-07457000000000000001-3.fifo'
    """
    suffix = ".fifo" if queue.ordered else ""
    return f"{prefix}{topic_id_of(queue.subscription_id)}-{ordinal_of(queue.subscription_id)}{suffix}"


def _is_absent(error: Exception) -> bool:
    return isinstance(error, ClientError) and error.response["Error"]["Code"] in _ABSENT


def _unavailable(error: Exception) -> UnavailableError:
    return UnavailableError(f"a group's queue is not available: {type(error).__name__}")
