"""What a push looks like on the wire: three content formats for three kinds of endpoint, and its signature.

Formats and headers: the HTTP API, "Push to an HTTP endpoint"; CloudEvents 1.0 with its HTTP binding (binary
mode) and its JSON format (structured mode); Standard Webhooks for the signature.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from tagcast.instant import rfc3339
from tagcast.model import ContentFormat, Message, Push, Subscription

CLOUDEVENT_TYPE = "tagcast.message"
JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"
BYTES_TYPE = "application/octet-stream"

_HEADER_TEXT = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_JSON_TYPE_PATTERN = re.compile(r"[^;\s]+/(?:json|[^;\s]+\+json)\s*(?:;.*)?", re.IGNORECASE)
_CE_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
# SQS refuses other characters (SendMessage, "MessageBody").
_SQS_TEXT = re.compile("[\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")


class SecretError(ValueError):
    """A webhook secret is not ``whsec_`` and base64 of at least one byte."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The body and all headers of one POST; header names are lower case."""

    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """The body and the string attributes of one SQS message."""

    body: str
    attributes: Mapping[str, str]


def http_request(push: Push, sent_at: int, version: str) -> HttpRequest:
    """Return the request for an HTTP endpoint, signed if the subscription has a secret.

    *sent_at* is the instant of the attempt, *version* is this software's. Raises SecretError.
    """
    body, headers = _http_content(push)
    message, subscription = push.message, push.subscription
    timestamp = sent_at // 1000
    headers |= {
        "webhook-id": message.message_id,
        "webhook-timestamp": str(timestamp),
        "x-tagcast-topic": message.topic,
        "x-tagcast-subscription": subscription.name,
        "x-tagcast-attempt": str(push.attempt),
        "x-tagcast-tags": json.dumps(message.tags),
        "user-agent": f"tagcast/{version}",
    }
    if message.replay_of is not None:
        headers["x-tagcast-replay-of"] = message.replay_of
    if subscription.secret is not None:
        headers["webhook-signature"] = signature(subscription.secret, message.message_id, timestamp, body)
    return HttpRequest(body, headers)


def queue_message(push: Push) -> QueueMessage:
    """Return the message for an SQS queue; a body that SQS cannot carry as text travels as base64."""
    draft = push.message.draft
    match push.subscription.content_format:
        case ContentFormat.JSON:
            return QueueMessage(json.dumps(envelope(push), separators=(",", ":")), {})
        case ContentFormat.CLOUDEVENTS:
            return QueueMessage(structured_cloudevent(push.message), {})
        case ContentFormat.SIMPLIFIED:
            attributes = {"tags": json.dumps(draft.tags)}
            if push.message.replay_of is not None:
                attributes["replay_of"] = push.message.replay_of
            if draft.is_text and _SQS_TEXT.fullmatch(text := draft.body.decode()):
                return QueueMessage(text, attributes)
            return QueueMessage(_base64(draft.body), attributes | {"body_encoding": "base64"})


def function_event(push: Push) -> bytes:
    """Return the JSON event for a Lambda function."""
    match push.subscription.content_format:
        case ContentFormat.JSON:
            return _json(envelope(push))
        case ContentFormat.CLOUDEVENTS:
            return structured_cloudevent(push.message).encode()
        case ContentFormat.SIMPLIFIED:
            return _json(_body_field(push.message))


def filter_event(subscription: Subscription, messages: Sequence[Message]) -> bytes:
    """Return the JSON event with which a filter function is asked for one verdict on each of *messages*."""
    asked = [
        {
            "message_id": message.message_id,
            "tags": list(message.tags),
            "routing_key": message.routing_key,
            "properties": dict(message.properties),
            **_body_field(message),
        }
        for message in messages
    ]
    return _json({"topic": subscription.topic, "subscription": subscription.name, "messages": asked})


def envelope(push: Push) -> dict[str, object]:
    """Return the envelope of the content format ``json``."""
    message = push.message
    return {
        "topic": message.topic,
        "subscription": push.subscription.name,
        "message_id": message.message_id,
        **_body_field(message),
        "tags": list(message.tags),
        "routing_key": message.routing_key,
        "properties": dict(message.properties),
        "accepted_at": rfc3339(message.accepted_at),
        "attempt": push.attempt,
        **({} if message.replay_of is None else {"replay_of": message.replay_of}),
    }


def structured_cloudevent(message: Message) -> str:
    """Return *message* as a CloudEvent in the JSON format, all in ASCII.

    Data whose type is JSON is put in as it is written; JSON that does not parse travels as ``data_base64``.
    """
    draft, media_type = message.draft, content_type(message)
    attributes: dict[str, object] = {**_cloudevent_attributes(message), "datacontenttype": media_type}
    if _JSON_TYPE_PATTERN.fullmatch(media_type) is None:
        field, value = ("data", draft.body.decode()) if draft.is_text else ("data_base64", _base64(draft.body))
        return json.dumps(attributes | {field: value}, separators=(",", ":"))
    if (raw := _valid_json(draft.body)) is None:
        return json.dumps(attributes | {"data_base64": _base64(draft.body)}, separators=(",", ":"))
    return f'{json.dumps(attributes, separators=(",", ":"))[:-1]},"data":{_ascii_json(raw)}}}'


def content_type(message: Message) -> str:
    """Return the media type of the body: the producer's if a header can carry it, else by its kind."""
    declared = message.draft.content_type
    if declared is not None and _HEADER_TEXT.fullmatch(declared):
        return declared
    return TEXT_TYPE if message.draft.is_text else BYTES_TYPE


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the ``webhook-signature`` of Standard Webhooks; *timestamp* is in seconds. Raises SecretError.

    >>> signature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
    ...           b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + _base64(hmac.new(_secret_key(secret), signed, hashlib.sha256).digest())


def cloudevent_header(value: str) -> str:
    """Return *value* as a ``ce-`` header carries it (CloudEvents HTTP binding §3.1.3.2).

    Space, double quote, percent and all that is not printable ASCII become percent-encoded UTF-8.

    >>> cloudevent_header('Euro € 😀 "5%"')
    'Euro%20%E2%82%AC%20%F0%9F%98%80%20%225%25%22'
    """
    return quote(value, safe=_CE_PLAIN, errors="replace")


def _http_content(push: Push) -> tuple[bytes, dict[str, str]]:
    message = push.message
    match push.subscription.content_format:
        case ContentFormat.JSON:
            return _json(envelope(push)), {"content-type": JSON_TYPE}
        case ContentFormat.SIMPLIFIED:
            return message.draft.body, {"content-type": content_type(message)}
        case ContentFormat.CLOUDEVENTS:
            attributes = _cloudevent_attributes(message)
            headers = {f"ce-{name}": cloudevent_header(value) for name, value in attributes.items()}
            return message.draft.body, {"content-type": content_type(message), **headers}


def _cloudevent_attributes(message: Message) -> dict[str, str]:
    attributes = {
        "specversion": "1.0",
        "type": CLOUDEVENT_TYPE,
        "source": f"/topics/{message.topic}",
        "id": message.message_id,
        "time": rfc3339(message.accepted_at),
    }
    if message.replay_of is not None:
        attributes["replayof"] = message.replay_of
    # The documented extension "partitioning" has no empty value.
    return attributes | ({"partitionkey": message.ordering_key} if message.ordering_key else {})


def _body_field(message: Message) -> dict[str, str]:
    draft = message.draft
    return {"body": draft.body.decode()} if draft.is_text else {"body_base64": _base64(draft.body)}


def _json(value: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # A lone surrogate is legal in JSON text, but only escaped.
        return json.dumps(value, separators=(",", ":")).encode()


def _valid_json(body: bytes) -> str | None:
    def refuse(constant: str) -> object:
        raise ValueError(constant)

    try:
        text = body.decode()
        json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    return text


def _ascii_json(text: str) -> str:
    # Outside of its strings JSON is ASCII anyway.
    return re.sub(r"[^\x00-\x7f]+", lambda found: json.dumps(found.group())[1:-1], text)


def _secret_key(secret: str) -> bytes:
    encoded = secret.removeprefix("whsec_")
    if encoded == secret:
        raise SecretError("no whsec_ prefix")
    try:
        key = base64.b64decode(encoded.rstrip("=") + "=" * (-len(encoded.rstrip("=")) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise SecretError("not base64") from None
    if not key:
        raise SecretError("empty")
    return key


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")
