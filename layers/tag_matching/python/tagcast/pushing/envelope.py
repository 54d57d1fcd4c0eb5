"""The wire format of a push: body, bounded headers, signature (docs/http-api.md, Pushes; Standard Webhooks)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tagcast.model import ContentFormat, Message, Push, Subscription
from tagcast.pushing.content_formats import DEFAULT_ACCOUNT, Content, QueueMessage, body_fields, compact_json, format_of
from tagcast.pushing.webhook_signature import Sign, signed_headers

HEADERS_BYTES_MAX = 4096
HEADER_BYTES_AROUND = len(": \r\n")
QUEUE_BODY_MAX = 1_000_000
"""A longer JSON text gets a base64 body, because SQS accepts 1 MiB with attributes. A control character takes six bytes
of JSON, so 256 KiB may become 1.5 MiB."""
UTF8_BYTES_MAX = 4
"""A character takes at most 4 bytes."""
_LEFT_OUT = ("x-tagcast-tags", "ce-tracestate", "tracestate", "ce-partitionkey", "x-cmq-message-tag")


def fitting(headers: dict[str, str]) -> dict[str, str]:
    """Return *headers*, without the least important ones if all would take more than 4 KiB."""
    characters = sum(map(len, headers)) + sum(map(len, headers.values()))
    if UTF8_BYTES_MAX * characters + HEADER_BYTES_AROUND * len(headers) <= HEADERS_BYTES_MAX:
        return headers
    kept, octets = dict(headers), header_bytes(headers)
    for name in _LEFT_OUT:
        if octets > HEADERS_BYTES_MAX and name in kept:
            octets -= header_bytes({name: kept.pop(name)})
    return kept


def header_bytes(headers: Mapping[str, str]) -> int:
    """Return how many bytes *headers* take in a request.

    >>> header_bytes({"x-tenant": "a"})
    13
    """
    return sum(len(f"{name}{value}".encode()) + HEADER_BYTES_AROUND for name, value in headers.items())


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The body of a POST in *parts*, and all headers, with lower-case names.

    Requests with the same message share the part that has the message, to save memory.
    """

    parts: tuple[bytes, ...]
    headers: Mapping[str, str]

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.parts)


def content(message: Message, content_format: ContentFormat) -> Content:
    """Return the part of the body, and the headers, that all HTTP pushes of *message* in *content_format* share."""
    form = format_of(content_format)
    headers = form.headers(message) | {"x-tagcast-tags": json.dumps(message.tags), **message.trace.fields}
    replayed = {} if message.replay_of is None else {"x-tagcast-replay-of": message.replay_of}
    return Content(form.shared_part(message), headers | replayed)


def http_request(
    push: Push,
    sent_at: int,
    version: str,
    shared: Content | None = None,
    account: str = DEFAULT_ACCOUNT,
    sign: Sign | None = None,
) -> HttpRequest:
    """Return the request for an HTTP endpoint, signed with the subscription's secret and by *sign*.

    *sent_at* is the time of the attempt, and *version* the version of this software. *shared* is the :func:`content` of
    the message; if None, it is computed. *account* is the owner of the topic in CMQ's JSON form. *sign* signs with the
    service's keys. If the headers exceed 4 KiB, the least important headers are dropped. Raises SecretError.
    """
    message, content_format = push.message, push.subscription.settings.content_format
    form, shared = format_of(content_format), shared or content(message, content_format)
    parts = form.parts(push, shared.octets, account)
    signed = signed_headers(push.subscription, message.message_id, sent_at, version, parts, sign)
    headers = {**shared.headers, **signed, "x-tagcast-attempt": str(push.attempt)}
    return HttpRequest(parts, fitting(headers | form.cmq_headers(message, sent_at)))


def queue_message(push: Push) -> QueueMessage:
    """Return the SQS message of a push. If its text would be too long for SQS, the message's body becomes base64."""
    form = format_of(push.subscription.settings.content_format)
    made = form.queue_message(push)
    if len(made.body) <= QUEUE_BODY_MAX:
        return made
    message = replace(push.message, draft=replace(push.message.draft, is_text=False))
    return form.queue_message(replace(push, message=message))


def function_event(push: Push) -> bytes:
    """Return the JSON event for a Lambda function."""
    return format_of(push.subscription.settings.content_format).function_event(push)


def filter_event(subscription: Subscription, messages: Sequence[Message]) -> bytes:
    """Return the JSON event that asks a filter function for a verdict on each of *messages*."""
    questions = [
        {
            "message_id": message.message_id,
            "tags": list(message.tags),
            "routing_key": message.routing_key,
            "properties": dict(message.properties),
            **body_fields(message),
        }
        for message in messages
    ]
    return compact_json({"topic": subscription.topic, "subscription": subscription.name, "messages": questions})
