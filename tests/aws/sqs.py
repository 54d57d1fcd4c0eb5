"""SQS: the operations that the shipped code uses, and those of a consumer."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any
from zlib import crc32

from tests.aws import limits
from tests.aws.attributes import text_bytes
from tests.aws.box import ACCOUNT, REGION, Call
from tests.aws.faults import ApiError, UnplayedError
from tests.aws.queue_keeping import QueueKeeping
from tests.aws.queues import Queue, QueuedMessage, md5
from tests.aws.quotas import Share

_BAD_TEXT = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_GROUP = re.compile(r"[!-~]{1,128}")
LOOK_MS = 250
"""So often a receive that waits looks again."""
_BATCHES = {
    "SendMessageBatch": "SendMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
}


class SQS(QueueKeeping):
    """All queues of the account, by URL."""

    name = "sqs"
    denied = "AccessDenied"
    throttled = ("RequestThrottled", 403)
    failed = ("InternalError", 500)
    codes = {  # noqa: RUF012  Where the query protocol had other names, botocore tells those.
        "QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue",
        "QueueNameExists": "QueueAlreadyExists",
        "EmptyBatchRequest": "AWS.SimpleQueueService.EmptyBatchRequest",
        "TooManyEntriesInBatchRequest": "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
        "BatchEntryIdsNotDistinct": "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
        "BatchRequestTooLong": "AWS.SimpleQueueService.BatchRequestTooLong",
        "InvalidBatchEntryId": "AWS.SimpleQueueService.InvalidBatchEntryId",
        "MessageNotInflight": "AWS.SimpleQueueService.MessageNotInflight",
    }

    def needs(self, call: Call) -> Iterable[tuple[str, str]]:
        action = _BATCHES.get(call.operation, call.operation)
        if call.operation == "ListQueues":
            owner, name = ACCOUNT, "*"
        elif "QueueName" in call.parameters:
            owner, name = ACCOUNT, call["QueueName"]
        else:
            owner, name = call["QueueUrl"].rsplit("/", 2)[-2:]
        yield f"sqs:{action}", f"arn:aws:sqs:{REGION}:{owner}:{name}"

    # Producers.

    def send_message(self, call: Call) -> dict[str, Any]:
        """SendMessage."""
        queue = self._asked(call)
        _check_size(_size(call.parameters))
        return self._send(queue, call.parameters)

    def send_message_batch(self, call: Call) -> dict[str, Any]:
        """SendMessageBatch; entries succeed and fail on their own."""
        queue = self._asked(call)
        if sum(map(_size, call["Entries"])) > limits.SQS_MESSAGE_BYTES_MAX:
            raise ApiError("BatchRequestTooLong", "Batch requests cannot be longer than 1048576 bytes.")
        return self._batch(call, lambda entry: self._send(queue, entry))

    def _send(self, queue: Queue, given: Mapping[str, Any]) -> dict[str, Any]:
        body = given["MessageBody"]
        group, deduplication = given.get("MessageGroupId"), given.get("MessageDeduplicationId")
        attributes = given.get("MessageAttributes", {})
        if "DelaySeconds" in given:
            raise UnplayedError("the box delays no message")
        if not body:
            raise ApiError("MissingParameter", "The request must contain the parameter MessageBody.")
        if _BAD_TEXT.search(body):
            raise ApiError("InvalidMessageContents", "Invalid characters found in the message.")
        if len(attributes) > limits.SQS_ATTRIBUTES_MAX:
            raise _wrong("Number of message attributes exceeds the allowed maximum [10].")
        for name, value in (("MessageGroupId", group), ("MessageDeduplicationId", deduplication)):
            if value is not None and not _GROUP.fullmatch(value):
                raise _wrong(f"Value {value} for parameter {name} is invalid. Reason: {name} can only include ...")
        if not queue.fifo:
            if deduplication is not None:
                raise _wrong("The request include parameter that is not valid for this queue type")
            return {"MessageId": queue.send(body, group, None, attributes), "MD5OfMessageBody": md5(body)}
        if group is None:
            raise ApiError("MissingParameter", "The request must contain the parameter MessageGroupId.")
        if deduplication is None:
            raise _wrong(
                "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided "
                "explicitly"
            )
        return {"MessageId": queue.send(body, group, deduplication, attributes), "MD5OfMessageBody": md5(body)}

    # Consumers.

    def receive_message(self, call: Call) -> dict[str, Any]:
        """ReceiveMessage; as long as there is nothing it looks again, until the wait that was asked for is over."""
        queue = self._asked(call)
        most = call.parameters.get("MaxNumberOfMessages", 1)
        if not 1 <= most <= limits.SQS_BATCH_MAX:
            raise _wrong(
                f"Value {most} for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10."
            )
        if queue.in_flight() >= limits.SQS_IN_FLIGHT_MAX:
            if queue.fifo:
                return {}
            raise ApiError("OverLimit", "Too many messages in flight.", status=403)
        visibility = call.parameters.get("VisibilityTimeout")
        if visibility is not None:
            _check_visibility(visibility)
        timeline = self.box.timeline
        until = timeline.now + 1000 * call.parameters.get("WaitTimeSeconds", 0)
        while not (messages := queue.receive(most, visibility)) and timeline.now < until:
            timeline.spend(min(LOOK_MS, until - timeline.now))
            self.box.acting = call.caller
        asked = [
            *call.parameters.get("AttributeNames", ()),
            *call.parameters.get("MessageSystemAttributeNames", ()),
        ]
        wanted = call.parameters.get("MessageAttributeNames", ())
        return {"Messages": [_received(each, asked, wanted) for each in messages]} if messages else {}

    def delete_message(self, call: Call) -> dict[str, Any]:
        """DeleteMessage."""
        self._asked(call).delete(call["ReceiptHandle"])
        return {}

    def delete_message_batch(self, call: Call) -> dict[str, Any]:
        """DeleteMessageBatch."""
        queue = self._asked(call)

        def delete(entry: Mapping[str, Any]) -> dict[str, Any]:
            queue.delete(entry["ReceiptHandle"])
            return {}

        return self._batch(call, delete)

    def change_message_visibility_batch(self, call: Call) -> dict[str, Any]:
        """ChangeMessageVisibilityBatch."""
        queue = self._asked(call)

        def change(entry: Mapping[str, Any]) -> dict[str, Any]:
            _check_visibility(entry["VisibilityTimeout"])
            queue.change_visibility(entry["ReceiptHandle"], entry["VisibilityTimeout"])
            return {}

        return self._batch(call, change)

    # What calls have in common.

    def _asked(self, call: Call) -> Queue:
        """The queue that a call names, if it is not asked more often than it answers."""
        queue = self.queue(call["QueueUrl"])
        action = _BATCHES.get(call.operation, call.operation)
        if not self.box.quotas.take(*calls_of(queue, action, _groups(call), self.box.quotas.place)):
            raise ApiError("RequestThrottled", "Rate exceeded", status=403)
        return queue

    def _batch(self, call: Call, act: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        entries = call["Entries"]
        if not entries:
            raise ApiError("EmptyBatchRequest", "There should be at least one entry in the request.")
        if len(entries) > limits.SQS_BATCH_MAX:
            raise ApiError("TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10.")
        if len({entry["Id"] for entry in entries}) != len(entries):
            raise ApiError("BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id.")
        if not all(_ID.fullmatch(entry["Id"]) for entry in entries):
            raise ApiError("InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, - and _.")
        spoiled = self.box.accidents.spoiled(call, len(entries))
        answer: dict[str, Any] = {}
        for place, entry in enumerate(entries):
            try:
                if place in spoiled:
                    raise ApiError("InternalError", "An internal error occurred.", status=500)
                done = act(entry)
            except ApiError as error:
                told = {"Id": entry["Id"], "SenderFault": error.status < 500, "Code": error.shape}
                answer.setdefault("Failed", []).append({**told, "Message": error.message})
            else:
                answer.setdefault("Successful", []).append({"Id": entry["Id"], **done})
        return answer


def calls_of(queue: Queue, action: str, groups: Collection[str], place: limits.QuotaPlace) -> Iterator[Share]:
    """What a call takes of a FIFO queue: of the queue as a whole, and of each partition that has one of its groups."""
    if queue.fifo and not queue.high_throughput:
        yield "sqs: calls to a slow FIFO queue", f"{queue.url} {action}", 1
    elif queue.fifo:
        yield "sqs: calls to a FIFO queue", f"{queue.url} {action}", 1
        for partition in sorted({_partition(group, place) for group in groups}):
            yield "sqs: calls to a partition of a FIFO queue", f"{queue.url} {action} {partition}", 1


def _partition(group: str, place: limits.QuotaPlace) -> str:
    return group if place.partitions is None else str(crc32(group.encode()) % place.partitions)


def _groups(call: Call) -> set[str]:
    """The groups that a call sends to: each is in one partition, which takes only so many calls."""
    sent = call.parameters.get("Entries", ()) if call.operation == "SendMessageBatch" else (call.parameters,)
    return {entry["MessageGroupId"] for entry in sent if "MessageGroupId" in entry}


def _wrong(message: str) -> ApiError:
    return ApiError("InvalidParameterValue", message)


def _size(given: Mapping[str, Any]) -> int:
    """The size that counts: body and attributes with names and types."""
    total = text_bytes(given["MessageBody"])
    for name, attribute in given.get("MessageAttributes", {}).items():
        value = attribute.get("BinaryValue") or attribute.get("StringValue", "").encode()
        total += text_bytes(name) + text_bytes(attribute["DataType"]) + len(value)
    return total


def _check_size(size: int) -> None:
    if size > limits.SQS_MESSAGE_BYTES_MAX:
        raise _wrong("One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.")


def _check_visibility(seconds: int) -> None:
    if not 0 <= seconds <= limits.SQS_VISIBILITY_MAX_S:
        raise _wrong(f"Value {seconds} for parameter VisibilityTimeout is invalid.")


def _received(message: QueuedMessage, asked: Iterable[str], wanted: Iterable[str]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "MessageId": message.message_id,
        "ReceiptHandle": message.receipt,
        "MD5OfBody": md5(message.body),
        "Body": message.body,
    }
    known = message.system_attributes
    system = {name: value for name, value in known.items() if name in asked or "All" in asked}
    if system:
        told["Attributes"] = system
    attributes = {name: value for name, value in message.attributes.items() if name in wanted or "All" in wanted}
    if attributes:
        told["MessageAttributes"] = attributes
    return told
