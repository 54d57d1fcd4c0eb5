"""The webhooks section of the API document: the requests that an HTTP endpoint receives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NotRequired

from tagcast.model import Draft
from tagcast.setting import declared_json
from typing_extensions import TypedDict

from tagcast_aws.api.http.answer_types import Instant
from tagcast_aws.api.http.declared import answer_base

TAG_OF_WEBHOOKS = "pushes"

if TYPE_CHECKING:

    class ShownAttributes(TypedDict):
        """The attributes of a message, as answers and pushes show them."""
else:
    ShownAttributes = answer_base(Draft)


class PushBody(ShownAttributes):
    """A message as pushed with the content format ``json``. A body that is not text is in ``body_base64``."""

    topic: str
    subscription: str
    message_id: str
    body: NotRequired[str]
    body_base64: NotRequired[str]
    accepted_at: Instant
    expires_at: Instant
    traceparent: NotRequired[str]
    tracestate: NotRequired[str]
    attempt: int
    replay_of: NotRequired[str]


EXAMPLE: dict[str, Any] = {
    "topic": "orders",
    "subscription": "billing",
    "message_id": "07457000000000000001",
    "body": "order 17",
    **declared_json(Draft(b"order 17", tags=("paid",), properties={"amount": "30"}, content_type="text/plain")),
    "accepted_at": "2027-01-15T08:00:00.000Z",
    "expires_at": "2027-01-16T08:00:00.000Z",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "attempt": 1,
}
_HEADERS = {
    "webhook-id": "The message's id: the same at every attempt.",
    "webhook-timestamp": "Time of this attempt, in seconds since 1970 UTC.",
    "webhook-signature": "Standard Webhooks: v1 if the subscription has a secret, v1a if it has that signature.",
    "x-tagcast-topic": "The topic.",
    "x-tagcast-subscription": "The subscription.",
    "x-tagcast-attempt": "Number of this attempt, from 1.",
    "x-tagcast-tags": "The message's tags as a JSON array; left out where headers would exceed 4 KiB.",
    "traceparent": "The message's place in a trace, from its producer or the service.",
    "tracestate": "The producer's tracestate; left out where headers would exceed 4 KiB.",
    "x-tagcast-replay-of": "The id of the archived message that this replay repeats.",
}
_OPTIONAL = ("webhook-signature", "x-tagcast-tags", "tracestate", "x-tagcast-replay-of")
_BATCH_HEADERS = {
    "webhook-id": "Id of this request, new at every attempt: find repetitions by the message ids inside.",
    **{name: _HEADERS[name] for name in ("webhook-timestamp", "webhook-signature")},
    **{name: _HEADERS[name] for name in ("x-tagcast-topic", "x-tagcast-subscription", "x-tagcast-attempt")},
    "x-tagcast-batch": "Number of messages.",
}
_ITEM: dict[str, Any] = {
    "type": "object",
    "properties": {"itemIdentifier": {"type": "string", "description": "The message's id."}},
    "required": ["itemIdentifier"],
}
_FAILURES: dict[str, Any] = {
    "type": "object",
    "properties": {"batchItemFailures": {"type": ["array", "null"], "items": _ITEM}},
}
"""The schema of a response to a batch, which lists the failed messages."""


def webhooks(reference: str) -> dict[str, Any]:
    """Return the ``webhooks`` section; *reference* names the schema of :class:`PushBody`."""
    body = {"$ref": reference}
    push = _operation(
        "receive",
        "A message is pushed to an HTTP endpoint",
        _HEADERS,
        {"application/json": {"schema": body, "example": EXAMPLE}, "*/*": {"schema": {}}},
        {"description": "The message was processed; it is not pushed again."},
        "The push failed: it is retried by the retry strategy.",
    )
    others = "The envelope (json), the body alone (simplified), or CloudEvents 1.0 in binary mode."
    push["requestBody"]["description"] = others
    taken = "All messages were processed, except those listed in the response."
    batch = _operation(
        "receive_batch",
        "Several messages are pushed to the endpoint of a subscription with batches",
        _BATCH_HEADERS,
        {
            "application/json": {"schema": {"type": "array", "items": body}, "example": [EXAMPLE]},
            "application/cloudevents-batch+json": {"schema": {"type": "array", "items": {"type": "object"}}},
        },
        {"description": taken, "content": {"application/json": {"schema": _FAILURES}}},
        "The batch failed: its first message is retried alone.",
    )
    return {"push": {"post": push}, "push_batch": {"post": batch}}


def _operation(
    name: str, summary: str, headers: Mapping[str, str], content: dict[str, Any], taken: dict[str, Any], failed: str
) -> dict[str, Any]:
    parameters = [
        {
            "name": header,
            "in": "header",
            "required": header not in _OPTIONAL,
            "description": text,
            "schema": {"type": "string"},
        }
        for header, text in headers.items()
    ]
    return {
        "operationId": name,
        "summary": summary,
        "tags": [TAG_OF_WEBHOOKS],
        "parameters": parameters,
        "requestBody": {"required": True, "content": content},
        "responses": {"2XX": taken, "default": {"description": failed}},
    }
