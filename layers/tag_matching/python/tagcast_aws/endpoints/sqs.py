"""SQS endpoints: one SendMessage or SendMessageBatch per request. A message that SQS accepts is delivered."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from tagcast.model import Outcome, Push, PushBatch, Subscription
from tagcast.pushing.envelope import queue_message
from tagcast.resource_names import ResourceName, queue_named

from tagcast_aws.endpoints.adapter import OF_A_GROUP, AdapterEnvironment
from tagcast_aws.endpoints.clients import Caller
from tagcast_aws.runtime.settings import Reach

ACCEPTED = "sqs accepted"
_GROUP = re.compile(r"[!-~]{1,128}")


class QueueEndpoint:
    """Sends to standard and FIFO queues, named by URL or ARN."""

    def __init__(self, surroundings: AdapterEnvironment) -> None:
        self._caller = Caller("sqs", surroundings)
        self._own, self._elsewhere = surroundings.own_queues, surroundings.reach is Reach.ANY

    async def deliver(self, push: Push) -> Outcome:
        """Send the message once."""
        return await self._attempt(push.subscription, lambda sqs, url: _send(sqs, url, push))

    async def deliver_batch(self, batch: PushBatch) -> Outcome:
        """Send all messages in one request; the queue may refuse some of them."""
        return await self._attempt(batch.subscription, lambda sqs, url: _send_batch(sqs, url, batch))

    async def close(self) -> None:
        """Do nothing: there are no connections on the event loop."""

    async def _attempt(self, subscription: Subscription, send: Callable[[Any, str], Outcome]) -> Outcome:
        """Call *send* with a client of the queue's region, and the queue's URL."""
        target = subscription.settings.endpoint.target
        queue = queue_named(target, elsewhere=self._elsewhere)
        if queue is None:
            return Outcome(False, "not a queue URL or ARN", unsent=True)
        if queue.begins_with(self._own):  # IAM allows the function to write to group queues.
            return Outcome(False, OF_A_GROUP, unsent=True)
        return await self._caller.attempt(subscription, queue.region, lambda sqs: send(sqs, _url(sqs, target, queue)))


def _send(sqs: Any, url: str, push: Push) -> Outcome:
    sqs.send_message(QueueUrl=url, **_fields(push, url))
    return Outcome(True, ACCEPTED)


def _send_batch(sqs: Any, url: str, batch: PushBatch) -> Outcome:
    # An entry's name is the message's id: both are digits, and unique in the request.
    entries = [{"Id": push.message.message_id, **_fields(push, url)} for push in batch.pushes]
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    failed = {each["Id"]: f"sqs: {each.get('Code', 'unknown')}" for each in answer.get("Failed", [])}
    return Outcome(True, ACCEPTED, failed=failed)


def _url(sqs: Any, target: str, queue: ResourceName) -> str:
    if not target.startswith("arn:"):
        return target
    # The URL is built here, because GetQueueUrl needs a permission that other accounts would have to grant, too.
    return f"{sqs.meta.endpoint_url.rstrip('/')}/{queue.account}/{queue.name}"


def group_id(key: str) -> str:
    """Return the message group of an ordering key: the key if SQS allows it, else its hash.

    >>> group_id("order-7"), len(group_id("naïve key"))
    ('order-7', 64)
    """
    return key if _GROUP.fullmatch(key) else hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


def _fields(push: Push, url: str) -> dict[str, Any]:
    content = queue_message(push)
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in content.attributes.items()}
    fields, message = {"MessageBody": content.body, "MessageAttributes": attributes}, push.message
    if url.endswith(".fifo"):
        fields["MessageGroupId"] = group_id(message.ordering_key or message.topic)
        fields["MessageDeduplicationId"] = f"{message.topic}-{message.message_id}"
    return fields
