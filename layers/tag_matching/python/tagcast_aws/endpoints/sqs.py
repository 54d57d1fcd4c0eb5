"""SQS endpoints: one SendMessage or SendMessageBatch per request; delivered means that the queue took the message."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from tagcast.model import Message, Outcome, Push, PushBatch
from tagcast.pushing.envelope import queue_message

from tagcast_aws.endpoints.adapter import Surroundings
from tagcast_aws.endpoints.clients import Caller

_REGION = re.compile(r"^https?://(?:[^/]*\.)?sqs(?:-fips)?\.([a-z0-9-]+)\.|^https?://([a-z0-9-]+)\.queue\.amazonaws\.")
ACCEPTED = "sqs accepted"
_GROUP = re.compile(r"[!-~]{1,128}")


class QueueEndpoint:
    """Delivers to standard and FIFO queues, named by URL or ARN."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._caller = Caller("sqs", surroundings)

    async def deliver(self, push: Push) -> Outcome:
        """Send the message once."""
        region = region_of(push.subscription.settings.endpoint.target)
        return await self._caller.attempt(push.subscription, region, lambda sqs: self._send(sqs, push))

    async def deliver_batch(self, batch: PushBatch) -> Outcome:
        """Send all messages in one request; the queue may refuse some of them."""
        region = region_of(batch.subscription.settings.endpoint.target)
        return await self._caller.attempt(batch.subscription, region, lambda sqs: self._send_batch(sqs, batch))

    async def close(self) -> None:
        """Do nothing: no connection belongs to the event loop."""

    def _send(self, sqs: Any, push: Push) -> Outcome:
        url = self._url(sqs, push.subscription.settings.endpoint.target)
        sqs.send_message(QueueUrl=url, **_fields(push, url))
        return Outcome(True, ACCEPTED)

    def _send_batch(self, sqs: Any, batch: PushBatch) -> Outcome:
        url = self._url(sqs, batch.subscription.settings.endpoint.target)
        # An entry's name is the message's id: both are digits, and unique in the request.
        entries = [{"Id": push.message.message_id, **_fields(push, url)} for push in batch.pushes]
        answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
        failed = {each["Id"]: f"sqs: {each.get('Code', 'unknown')}" for each in answer.get("Failed", [])}
        return Outcome(True, ACCEPTED, failed=failed)

    def _url(self, sqs: Any, target: str) -> str:
        if not target.startswith("arn:"):
            return target
        # Made, not asked for: asking needs a permission that the queues of other accounts would have to grant, too.
        account, name = target.split(":")[4:6]
        return f"{sqs.meta.endpoint_url.rstrip('/')}/{account}/{name}"


def region_of(target: str) -> str | None:
    """Return the region that a queue's URL or ARN names, or None for the region of the service.

    >>> region_of("arn:aws:sqs:eu-west-1:123456789012:q"), region_of("http://127.0.0.1:4566/123456789012/q")
    ('eu-west-1', None)
    """
    if target.startswith("arn:"):
        return target.split(":")[3]
    found = _REGION.match(target)
    return (found[1] or found[2]) if found else None


def group_id(key: str) -> str:
    """Return the message group of an ordering key: the key itself where SQS allows it, else its hash.

    >>> group_id("order-7"), len(group_id("naïve key"))
    ('order-7', 64)
    """
    return key if _GROUP.fullmatch(key) else hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


def _fields(push: Push, url: str) -> dict[str, Any]:
    content = queue_message(push)
    fifo = _fifo_fields(push.message) if url.endswith(".fifo") else {}
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in content.attributes.items()}
    return {"MessageBody": content.body, "MessageAttributes": attributes, **fifo}


def _fifo_fields(message: Message) -> dict[str, str]:
    return {
        "MessageGroupId": group_id(message.ordering_key or message.topic),
        "MessageDeduplicationId": message.message_id,
    }
