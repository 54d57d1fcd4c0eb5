"""What a push looks like on the wire: five content formats for three kinds of endpoint, and its signature.

Formats and headers: docs/http-api.md, Pushes; CloudEvents 1.0 with its HTTP binding (binary
mode) and its JSON format (structured mode); Standard Webhooks for the signature.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from tagcast.instant import rfc3339
from tagcast.model import ContentFormat, Message, Push, Subscription
from tagcast.pushing.webhook_signature import Sign, signed_headers
from tagcast.settings import CMQ_FORMATS

HEADERS_BYTES_MAX = 4096
HEADER_BYTES_AROUND = len(": \r\n")
UTF8_BYTES_MAX = 4
"""A character takes at most 4 bytes."""
_LEFT_OUT = ("x-tagcast-tags", "ce-tracestate", "tracestate", "ce-partitionkey", "x-cmq-message-tag")

_CE_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


def cloudevent_header(value: str) -> str:
    """Return *value* as a ``ce-`` header carries it (CloudEvents HTTP binding, 3.1.3.2).

    Space, double quote, percent and all that is not printable ASCII become percent-encoded UTF-8.

    >>> cloudevent_header('Euro € 😀 "5%"')
    'Euro%20%E2%82%AC%20%F0%9F%98%80%20%225%25%22'
    """
    return quote(value, safe=_CE_PLAIN, errors="replace")


def fitting(headers: dict[str, str]) -> dict[str, str]:
    """Return *headers* in at most 4 KiB: what would be missed least is left out first."""
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


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":")).encode


def compact(value: Mapping[str, object]) -> bytes:
    """Return *value* as JSON without spaces, in UTF-8.

    >>> compact({"a": "é"}).decode(), compact({"a": "\\ud800"}).decode()
    ('{"a":"é"}', '{"a":"\\\\ud800"}')
    """
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:  # A lone surrogate is legal in JSON text, but only escaped.
        return _encode_ascii(value).encode()


def valid_json(body: bytes) -> str | None:
    """Return *body* as text if it is JSON (which knows no NaN), else None.

    >>> valid_json(b"[1]"), valid_json(b"[NaN]"), valid_json(b"\\xff")
    ('[1]', None, None)
    """

    def refuse(constant: str) -> object:
        raise ValueError(constant)

    try:
        text = body.decode()
        json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    return text


def ascii_json(text: str) -> str:
    """Return the same JSON in ASCII; outside of its strings it is that anyway.

    >>> ascii_json('["é"]')
    '["\\\\u00e9"]'
    """
    return re.sub(r"[^\x00-\x7f]+", lambda found: json.dumps(found.group())[1:-1], text)


def base64_text(octets: bytes) -> str:
    """Return *octets* as base64.

    >>> base64_text(b"\\x00")
    'AA=='
    """
    return base64.b64encode(octets).decode("ascii")


NOBODY = "0"
"""The owner of topics where no account is known."""
AGENT = "Qcloud Notification Service Agent"


def shared_fields(message: Message) -> dict[str, object]:
    """Return the fields of the JSON body that all pushes of *message* have in common; a body of bytes is base64."""
    draft = message.draft
    return {
        "msgId": message.message_id,
        "msgBody": draft.body.decode() if draft.is_text else base64_text(draft.body),
        "publishTime": message.accepted_at // 1000,
    }


def cmq_headers(message: Message, sent_at: int) -> dict[str, str]:
    """Return the headers of CMQ's pushes; tags are separated by a comma and a blank."""
    return {
        "content-type": "text/plain",
        "user-agent": AGENT,
        "x-cmq-request-id": str(sent_at),
        "x-cmq-message-id": message.message_id,
        "x-cmq-message-tag": ", ".join(message.tags),
    }


CLOUDEVENT_TYPE = "tagcast.message"
JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"
BYTES_TYPE = "application/octet-stream"

_HEADER_TEXT = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_JSON_TYPE_PATTERN = re.compile(r"[^;\s]+/(?:json|[^;\s]+\+json)\s*(?:;.*)?", re.IGNORECASE)
# SQS refuses other characters (SendMessage, "MessageBody").
_SQS_TEXT = re.compile("[\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Content:
    """What all pushes of one message in one format have in common; it is encoded once and shared."""

    octets: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The body, in parts of which the large one is shared, and all headers of a POST; their names are lower case."""

    parts: tuple[bytes, ...]
    headers: Mapping[str, str]

    @property
    def body(self) -> bytes:
        """Return the whole body."""
        return b"".join(self.parts)


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """The body and the string attributes of one SQS message."""

    body: str
    attributes: Mapping[str, str]


def content(message: Message, content_format: ContentFormat) -> Content:
    """Return what every HTTP push of *message* in *content_format* carries."""
    headers = _shared_headers(message, content_format)
    match content_format:
        case ContentFormat.JSON:
            return Content(compact(_shared_fields(message))[1:-1], headers)
        case ContentFormat.CMQ_JSON:
            return Content(compact(shared_fields(message))[1:-1], headers)
        case ContentFormat.CLOUDEVENTS | ContentFormat.SIMPLIFIED | ContentFormat.CMQ_SIMPLIFIED:
            return Content(message.draft.body, headers)


def json_item(message: Message) -> Content:
    """Return what every batch in the format ``json`` carries of *message*: it has no headers of its own there."""
    return Content(compact(_shared_fields(message))[1:-1], {})


def http_request(
    push: Push,
    sent_at: int,
    version: str,
    shared: Content | None = None,
    account: str = NOBODY,
    sign: Sign | None = None,
) -> HttpRequest:
    """Return the request for an HTTP endpoint, signed as its subscription asks, by *sign* with its key of the service.

    *sent_at* is the instant of the attempt, *version* is this software's, *shared* what :func:`content` returned for
    the message in this format, *account* the number of the account that CMQ's form names as the topic's owner. Headers
    take at most 4 KiB: some are left out where they would take more. Raises SecretError.
    """
    message, content_format = push.message, push.subscription.settings.content_format
    shared = shared or content(message, content_format)
    parts = _parts(push, shared, account)
    signed = signed_headers(push.subscription, message.message_id, sent_at, version, parts, sign)
    headers = {**shared.headers, **signed, "x-tagcast-attempt": str(push.attempt)}
    if content_format in CMQ_FORMATS:
        headers |= cmq_headers(message, sent_at)
    return HttpRequest(parts, fitting(headers))


def queue_message(push: Push) -> QueueMessage:
    """Return the message for an SQS queue; a body that SQS cannot carry as text travels as base64."""
    draft, attributes = push.message.draft, push.message.trace.fields
    match push.subscription.settings.content_format:
        case ContentFormat.JSON:
            return QueueMessage(json.dumps(envelope(push), separators=(",", ":")), attributes)
        case ContentFormat.CLOUDEVENTS:
            return QueueMessage(structured_cloudevent(push.message), attributes)
        case ContentFormat.SIMPLIFIED | ContentFormat.CMQ_JSON | ContentFormat.CMQ_SIMPLIFIED:
            attributes["tags"] = json.dumps(draft.tags)
            if push.message.replay_of is not None:
                attributes["replay_of"] = push.message.replay_of
            if draft.is_text and _SQS_TEXT.fullmatch(text := draft.body.decode()):
                return QueueMessage(text, attributes)
            return QueueMessage(base64_text(draft.body), attributes | {"body_encoding": "base64"})


def function_event(push: Push) -> bytes:
    """Return the JSON event for a Lambda function."""
    match push.subscription.settings.content_format:
        case ContentFormat.JSON:
            return compact(envelope(push))
        case ContentFormat.CLOUDEVENTS:
            return structured_cloudevent(push.message).encode()
        case ContentFormat.SIMPLIFIED | ContentFormat.CMQ_JSON | ContentFormat.CMQ_SIMPLIFIED:
            return compact(_body_field(push.message))


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
    return compact({"topic": subscription.topic, "subscription": subscription.name, "messages": asked})


def envelope(push: Push) -> dict[str, object]:
    """Return the envelope of the content format ``json``."""
    return {**_fields_before(push), **_shared_fields(push.message), **_fields_after(push)}


def envelope_parts(push: Push, shared: Content) -> tuple[bytes, ...]:
    """Return the envelope as it is written, in parts of which the large one is *shared*."""
    before, after = compact(_fields_before(push))[:-1], compact(_fields_after(push))[1:]
    return before + b",", shared.octets, b"," + after


def _fields_before(push: Push) -> dict[str, object]:
    return {"topic": push.message.topic, "subscription": push.subscription.name}


def _shared_fields(message: Message) -> dict[str, object]:
    return {
        "message_id": message.message_id,
        **_body_field(message),
        "tags": list(message.tags),
        "routing_key": message.routing_key,
        "properties": dict(message.properties),
        "ordering_key": message.ordering_key,
        "content_type": message.draft.content_type,
        "accepted_at": rfc3339(message.accepted_at),
        "expires_at": rfc3339(message.expires_at),
        **message.trace.fields,
    }


def _fields_after(push: Push) -> dict[str, object]:
    replay_of = push.message.replay_of
    return {"attempt": push.attempt, **({} if replay_of is None else {"replay_of": replay_of})}


def structured_cloudevent(message: Message) -> str:
    """Return *message* as a CloudEvent in the JSON format, all in ASCII.

    Data whose type is JSON is put in as it is written; JSON that does not parse travels as ``data_base64``.
    """
    draft, media_type = message.draft, content_type(message)
    attributes: dict[str, object] = {**_cloudevent_attributes(message), "datacontenttype": media_type}
    if _JSON_TYPE_PATTERN.fullmatch(media_type) is None:
        field, value = ("data", draft.body.decode()) if draft.is_text else ("data_base64", base64_text(draft.body))
        return json.dumps(attributes | {field: value}, separators=(",", ":"))
    if (raw := valid_json(draft.body)) is None:
        return json.dumps(attributes | {"data_base64": base64_text(draft.body)}, separators=(",", ":"))
    return f'{json.dumps(attributes, separators=(",", ":"))[:-1]},"data":{ascii_json(raw)}}}'


def content_type(message: Message) -> str:
    """Return the media type of the body: the producer's if a header can carry it, else by its kind."""
    declared = message.draft.content_type
    if declared is not None and _HEADER_TEXT.fullmatch(declared):
        return declared
    return TEXT_TYPE if message.draft.is_text else BYTES_TYPE


def _parts(push: Push, shared: Content, account: str) -> tuple[bytes, ...]:
    match push.subscription.settings.content_format:
        case ContentFormat.JSON:
            return envelope_parts(push, shared)
        case ContentFormat.CMQ_JSON:
            owner = int(account)  # CMQ sends it as a number.
            named = {"TopicOwner": owner, "topicName": push.message.topic, "subscriptionName": push.subscription.name}
            return compact(named)[:-1] + b",", shared.octets, b"}"
        case ContentFormat.CLOUDEVENTS | ContentFormat.SIMPLIFIED | ContentFormat.CMQ_SIMPLIFIED:
            return (shared.octets,)


def _shared_headers(message: Message, content_format: ContentFormat) -> dict[str, str]:
    headers = _format_headers(message, content_format)
    headers |= {"x-tagcast-tags": json.dumps(message.tags), **message.trace.fields}
    return headers if message.replay_of is None else headers | {"x-tagcast-replay-of": message.replay_of}


def _format_headers(message: Message, content_format: ContentFormat) -> dict[str, str]:
    match content_format:
        case ContentFormat.JSON:
            return {"content-type": JSON_TYPE}
        case ContentFormat.CLOUDEVENTS:
            attributes = _cloudevent_attributes(message).items()
            headers = {f"ce-{name}": cloudevent_header(value) for name, value in attributes}
            return {"content-type": content_type(message), **headers}
        case ContentFormat.SIMPLIFIED | ContentFormat.CMQ_JSON | ContentFormat.CMQ_SIMPLIFIED:
            return {"content-type": content_type(message)}


def _cloudevent_attributes(message: Message) -> dict[str, str]:
    attributes = {
        "specversion": "1.0",
        "type": CLOUDEVENT_TYPE,
        "source": f"/topics/{message.topic}",
        "id": message.message_id,
        "time": rfc3339(message.accepted_at),
        **message.trace.fields,
    }
    if message.replay_of is not None:
        attributes["replayof"] = message.replay_of
    # The documented extension "partitioning" has no empty value.
    return attributes | ({"partitionkey": message.ordering_key} if message.ordering_key else {})


def _body_field(message: Message) -> dict[str, str]:
    draft = message.draft
    return {"body": draft.body.decode()} if draft.is_text else {"body_base64": base64_text(draft.body)}
