"""The queues of pull groups on SQS."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.errors import UnavailableError
from tagcast.ids import ordinal_of, subscription_id, topic_id_of
from tagcast.ports import GroupQueue, QueueCounts, QueueEntry, ReceivedEntry

from tagcast_aws.dispatch.queue import BATCH_MAX, SqsQueue
from tagcast_aws.runtime.aws_clients import error_code

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeFilterType, QueueAttributeNameType
    from mypy_boto3_sqs.type_defs import ChangeMessageVisibilityBatchRequestEntryTypeDef, MessageTypeDef

RETENTION_S = 4 * 86_400
"""Entries stay for 4 days, longer than a message's life (a day) and its longest visibility timeout (half a day)."""
_ABSENT = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
_PRESENT = ("QueueAlreadyExists", "QueueNameExists")
"""The error codes for an existing queue with other attributes: the old code, and the one of AWS's JSON protocol."""


class SqsGroupQueues:
    """Implements the port ``GroupQueues``. A queue's name is *prefix* plus its group's id.

    The queues are in the same account as *queue_url*, the URL of another queue. *patient* creates a client whose
    timeout allows long polling; *client* is the client for other calls.
    """

    def __init__(
        self, client: SQSClient, patient: Callable[[], SQSClient], queue_url: str, prefix: str, logger: Logger
    ) -> None:
        self._client = client
        self._patient = patient
        self._folder = queue_url.rpartition("/")[0]
        self._prefix = prefix
        self._logger = logger

    def make(self, queue: GroupQueue) -> None:
        """Create the queue, unless it exists. An existing queue with other attributes stays as it is."""
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
        with _translate_faults(_PRESENT):
            self._client.create_queue(QueueName=queue_name(self._prefix, queue), Attributes=attributes)

    def remove(self, queue: GroupQueue) -> None:
        """Delete the queue with its content, if it exists."""
        with _translate_faults():
            self._client.delete_queue(QueueUrl=self._url(queue))

    def every(self) -> Iterator[GroupQueue]:
        """Yield the queues of all groups, which are found by their names."""
        with _translate_faults():
            pages = self._client.get_paginator("list_queues").paginate(
                QueueNamePrefix=self._prefix, PaginationConfig={"PageSize": 1_000}
            )
            for page in pages:
                for url in page.get("QueueUrls", ()):
                    queue = queue_named(self._prefix, url.rpartition("/")[2])
                    if queue is not None:
                        yield queue

    def send(self, queue: GroupQueue, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        """Send *entries* in order. Return the entries that were not accepted, and all later ones of their groups.

        After a refused entry, no later entry of its message group is sent. Otherwise a member would receive the later
        entry first.
        """
        return self._queue(queue).send(entries)

    def receive(
        self, queue: GroupQueue, *, limit: int, wait_s: int, visibility_timeout_s: int
    ) -> Sequence[ReceivedEntry]:
        """Receive at most *limit* entries; wait for the first up to *wait_s* seconds."""
        found: Sequence[MessageTypeDef] = ()
        with _translate_faults():
            found = (
                self._patient()
                .receive_message(
                    QueueUrl=self._url(queue),
                    MaxNumberOfMessages=limit,
                    WaitTimeSeconds=wait_s,
                    VisibilityTimeout=visibility_timeout_s,
                    MessageSystemAttributeNames=["ApproximateReceiveCount"],
                )
                .get("Messages", ())
            )
        return [_received_entry(each) for each in found]

    def delete(self, queue: GroupQueue, receipts: Sequence[str]) -> None:
        """Delete entries by their SQS receipt handles. An entry whose deletion fails is received again."""
        for part in _parts(receipts):
            self._queue(queue).delete(part)

    def hide(self, queue: GroupQueue, seconds: Mapping[str, int]) -> Collection[str]:
        """Hide entries: *seconds* maps SQS receipt handles to seconds from now. Return the handles that SQS refused.

        Raises UnavailableError if SQS failed to hide an entry with a valid handle. Other entries may then be hidden.
        """
        refused: list[str] = []
        for part in _parts(tuple(seconds)):
            entries: list[ChangeMessageVisibilityBatchRequestEntryTypeDef] = [
                {"Id": str(place), "ReceiptHandle": receipt, "VisibilityTimeout": seconds[receipt]}
                for place, receipt in enumerate(part)
            ]
            refused_here: Sequence[str] = part
            with _translate_faults():
                answer = self._client.change_message_visibility_batch(QueueUrl=self._url(queue), Entries=entries)
                failed = answer.get("Failed", ())
                if not all(each["SenderFault"] for each in failed):
                    raise UnavailableError("a group's queue failed to hide entries")
                refused_here = [part[int(each["Id"])] for each in failed]
            refused += refused_here
        return refused

    def counts(self, queue: GroupQueue) -> QueueCounts:
        """Return the approximate numbers of visible and of invisible entries."""
        names: list[QueueAttributeFilterType] = [
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
        ]
        found: Mapping[str, str] = {}
        with _translate_faults():
            answer = self._client.get_queue_attributes(QueueUrl=self._url(queue), AttributeNames=names)
            found = cast("Mapping[str, str]", answer["Attributes"])
        waiting, in_flight = (int(found.get(name, 0)) for name in names)
        return QueueCounts(waiting, in_flight)

    def _queue(self, queue: GroupQueue) -> SqsQueue:
        return SqsQueue(self._client, self._url(queue), self._logger, is_fifo=queue.ordered, strict=True)

    def _url(self, queue: GroupQueue) -> str:
        return f"{self._folder}/{queue_name(self._prefix, queue)}"


def queue_name(prefix: str, queue: GroupQueue) -> str:
    """Return the name of a group's queue, which contains the group's id.

    >>> queue_name("tagcast-group-", GroupQueue("07457000000000000001.3", ordered=True))
    'tagcast-group-07457000000000000001-3.fifo'
    """
    suffix = ".fifo" if queue.ordered else ""
    return f"{prefix}{topic_id_of(queue.subscription_id)}-{ordinal_of(queue.subscription_id)}{suffix}"


def queue_named(prefix: str, name: str) -> GroupQueue | None:
    """Return the queue with this name. Return None if the name is not that of a group's queue.

    >>> queue_named("g-", "g-07457000000000000001-3.fifo")
    GroupQueue(subscription_id='07457000000000000001.3', ordered=True)
    >>> queue_named("g-", "g-hello")
    """
    found = re.fullmatch(re.escape(prefix) + r"([0-9]{20})-([0-9]+)(\.fifo)?", name)
    return None if found is None else GroupQueue(subscription_id(found[1], int(found[2])), ordered=found[3] is not None)


def _received_entry(message: MessageTypeDef) -> ReceivedEntry:
    times = int(message["Attributes"]["ApproximateReceiveCount"])
    [message_id] = json.loads(message["Body"])["message_ids"]
    return ReceivedEntry(message_id, message["MessageId"], message["ReceiptHandle"], times)


def _parts(receipts: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(receipts), BATCH_MAX):
        yield receipts[start : start + BATCH_MAX]


@contextmanager
def _translate_faults(harmless: Collection[str] = _ABSENT) -> Iterator[None]:
    """Ignore errors with *harmless* codes (a missing queue counts as empty); raise UnavailableError for others."""
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        if (code := error_code(error)) not in harmless:
            raise UnavailableError(f"a group's queue is not available: {code}") from error
