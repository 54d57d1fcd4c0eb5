"""A queue on SQS: the FIFO queue of `fan_out`, or a group's queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.ports import QueueEntry
from tagcast.queues import entry_text

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import (
        ChangeMessageVisibilityBatchRequestEntryTypeDef,
        DeleteMessageBatchRequestEntryTypeDef,
        SendMessageBatchRequestEntryTypeDef,
    )

BATCH_MAX = 10


class SqsQueue:
    """Implements the port ``Queue``.

    If SQS does not accept an entry, later requests of the same call send no entry of the same message group.

    If *is_fifo*, entries have message groups, and SQS drops repetitions. With *strict*, no request contains two entries
    of a message group.
    """

    def __init__(
        self, client: SQSClient, queue_url: str, logger: Logger, *, is_fifo: bool = True, strict: bool = False
    ) -> None:
        self._client = client
        self._queue_url = queue_url
        self._logger = logger
        self._is_fifo = is_fifo
        self._strict = strict

    def send(self, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        """Send *entries* in order, at most ten per request; return the entries that were not accepted, in order.

        After a failed entry, later requests send no entry of its group. Later entries of the group in the same request
        count as not accepted, even if they were, so a repetition sends them again. If a whole request fails, no further
        request is sent, because the caller has little time. The entries of the failed request and all later entries
        count as not accepted.
        """
        lost: list[QueueEntry] = []
        broken: set[str] = set()
        done = 0
        for chunk in _requests_of(entries, strict=self._strict):
            refused = self._send_batch([entry for entry in chunk if entry.group not in broken])
            if refused is None:
                return (*lost, *entries[done:])
            done += len(chunk)
            for entry in chunk:
                if entry in refused or entry.group in broken:
                    broken.add(entry.group)
                    lost.append(entry)
        return tuple(lost)

    def give_back(self, receipts: Sequence[str], after_s: int = 0) -> None:
        """Make messages visible again in *after_s* seconds, by SQS receipt handle.

        If this fails, the messages stay hidden until their visibility timeout ends.
        """
        entries: list[ChangeMessageVisibilityBatchRequestEntryTypeDef] = [
            {"Id": str(place), "ReceiptHandle": receipt, "VisibilityTimeout": after_s}
            for place, receipt in enumerate(receipts)
        ]
        try:
            self._client.change_message_visibility_batch(QueueUrl=self._queue_url, Entries=entries)
        except (ClientError, BotoCoreError) as error:
            self._logger.warning("queue entries stay invisible", extra={"error": type(error).__name__})

    def delete(self, receipts: Sequence[str]) -> None:
        """Delete messages by SQS receipt handle.

        If this fails, Lambda deletes the messages of `fan_out` with their batch.
        """
        entries: list[DeleteMessageBatchRequestEntryTypeDef] = [
            {"Id": str(place), "ReceiptHandle": receipt} for place, receipt in enumerate(receipts)
        ]
        try:
            self._client.delete_message_batch(QueueUrl=self._queue_url, Entries=entries)
        except (ClientError, BotoCoreError) as error:
            self._logger.warning("queue entries stay", extra={"error": type(error).__name__})

    def _send_batch(self, batch: Sequence[QueueEntry]) -> Sequence[QueueEntry] | None:
        """Send *batch* in one request; return the entries that SQS refused, or None if the whole request failed."""
        if not batch:
            return ()
        requests = [_request(place, entry, self._is_fifo) for place, entry in enumerate(batch)]
        try:
            answer = self._client.send_message_batch(QueueUrl=self._queue_url, Entries=requests)
        except (ClientError, BotoCoreError) as error:
            self._logger.warning("queue send failed", extra={"error": type(error).__name__})
            return None
        return [batch[int(failed["Id"])] for failed in answer.get("Failed", [])]


def _requests_of(entries: Sequence[QueueEntry], *, strict: bool) -> Iterator[Sequence[QueueEntry]]:
    """Split *entries* into requests of at most ten.

    If one publish has several entries of a message group, they are packs or sections. Two such entries never share a
    request, because the queue may refuse the first and accept the second. With *strict*, no two entries of a message
    group share a request.
    """
    began = 0
    is_plain: dict[str, bool] = {}
    for place, entry in enumerate(entries):
        parts = entry.group in is_plain and (strict or not (entry.is_plain and is_plain[entry.group]))
        if place - began == BATCH_MAX or parts:
            yield entries[began:place]
            began, is_plain = place, {}
        is_plain[entry.group] = entry.is_plain and is_plain.get(entry.group, True)
    if began < len(entries):
        yield entries[began:]


def _request(place: int, entry: QueueEntry, is_fifo: bool) -> SendMessageBatchRequestEntryTypeDef:
    request: SendMessageBatchRequestEntryTypeDef = {
        "Id": str(place),
        "MessageBody": entry_text(entry),
    }
    if is_fifo:
        request |= {"MessageGroupId": entry.group, "MessageDeduplicationId": entry.deduplication_id}
    return request
