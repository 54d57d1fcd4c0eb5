"""The content formats, one object each: the body and headers of a push to each kind of endpoint.

Formats: docs/http-api.md, Pushes; CloudEvents 1.0 with its HTTP binding (binary mode) and its JSON format (structured
mode, and the format of batches).
"""

from __future__ import annotations

import base64
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from tagcast.instant import rfc3339
from tagcast.model import ContentFormat, Message, Push
from tagcast.setting import declared_json

DEFAULT_ACCOUNT = "0"
"""The account in CMQ's field ``TopicOwner`` if no account is known."""
AGENT = "Qcloud Notification Service Agent"
CLOUDEVENT_TYPE = "tagcast.message"
_CLOUDEVENTS_TYPE = "application/cloudevents"
CLOUDEVENTS_BATCH_TYPE = "application/cloudevents-batch+json"
JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"
BYTES_TYPE = "application/octet-stream"

_CE_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
_HEADER_TEXT = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_JSON_TYPE_PATTERN = re.compile(r"[^;\s/]+/(?:json|[^;\s]+\+json)\s*(?:;.*)?", re.IGNORECASE)
# SQS refuses other characters, and an empty text (SendMessage, "MessageBody").
_SQS_TEXT = re.compile("[\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Content:
    """The part of a request that is equal in all pushes of one message in one content format.

    *octets* is this part of the body. *headers* are the headers that all pushes share; an item of a batch has none.
    """

    octets: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """The body and the string attributes of one SQS message."""

    body: str
    attributes: Mapping[str, str]


class Format(ABC):
    """One content format. *batch_type* is the media type of a batch, or empty if the format allows no batches."""

    batch_type = ""

    @abstractmethod
    def headers(self, message: Message) -> dict[str, str]:
        """Return the HTTP headers that describe the body."""

    @abstractmethod
    def queue_message(self, push: Push) -> QueueMessage:
        """Return the message for an SQS queue."""

    @abstractmethod
    def function_event(self, push: Push) -> bytes:
        """Return the JSON event for a Lambda function."""

    def shared_part(self, message: Message) -> bytes:
        """Return the part of the body that all HTTP pushes of *message* share."""
        return message.draft.body

    def parts(self, push: Push, shared: bytes, account: str) -> tuple[bytes, ...]:
        """Return the body of an HTTP push, or an item of a batch, in parts. *shared* becomes one of the parts.

        *shared* is the :meth:`shared_part` of the message, or in a batch the :meth:`shared_item`. *account* is the
        owner of the topic in CMQ's JSON form.
        """
        return (shared,)

    def cmq_headers(self, message: Message, sent_at: int) -> dict[str, str]:
        """Return the headers of CMQ's pushes, which replace others of the same name; empty for other formats."""
        return {}

    def shared_item(self, message: Message) -> bytes:
        """Return the part of *message* in a batch that is equal in all batches with this message."""
        return self.shared_part(message)


class _Json(Format):
    """The envelope: the message with all its attributes as one JSON object."""

    batch_type = JSON_TYPE

    def headers(self, message: Message) -> dict[str, str]:
        return {"content-type": JSON_TYPE}

    def queue_message(self, push: Push) -> QueueMessage:
        return QueueMessage(json.dumps(envelope(push), separators=(",", ":")), push.message.trace.fields)

    def function_event(self, push: Push) -> bytes:
        return compact_json(envelope(push))

    def shared_part(self, message: Message) -> bytes:
        return compact_json(_shared_fields(message))[1:-1]

    def parts(self, push: Push, shared: bytes, account: str) -> tuple[bytes, ...]:
        before, after = compact_json(_fields_before(push))[:-1], compact_json(_fields_after(push))[1:]
        return before + b",", shared, b"," + after


class _Simplified(Format):
    """The bare body. A queue and a function also get the facts that HTTP pushes have in their headers."""

    def headers(self, message: Message) -> dict[str, str]:
        return {"content-type": content_type(message)}

    def queue_message(self, push: Push) -> QueueMessage:
        draft = push.message.draft
        attributes = _identifying_fields(push.message) | {"tags": json.dumps(draft.tags)}
        if not draft.body:
            return QueueMessage(" ", attributes | {"body_encoding": "empty"})
        if draft.is_text and _SQS_TEXT.fullmatch(text := draft.body.decode()):
            return QueueMessage(text, attributes)
        return QueueMessage(base64_text(draft.body), attributes | {"body_encoding": "base64"})

    def function_event(self, push: Push) -> bytes:
        return compact_json(
            {**_identifying_fields(push.message), "tags": list(push.message.tags), **body_fields(push.message)}
        )


def _identifying_fields(message: Message) -> dict[str, str]:
    """Return what receivers need to drop repetitions and to recognize a replay, and the trace."""
    named = {"topic": message.topic, "message_id": message.message_id}
    return named | message.trace.fields | _replay_mark(message)


def _replay_mark(message: Message) -> dict[str, str]:
    return {} if message.replay_of is None else {"replay_of": message.replay_of}


class _CmqSimplified(_Simplified):
    """The bare body, with the headers of CMQ's pushes."""

    def cmq_headers(self, message: Message, sent_at: int) -> dict[str, str]:
        return {
            "content-type": "text/plain",
            "user-agent": AGENT,
            "x-cmq-request-id": str(sent_at),
            "x-cmq-message-id": message.message_id,
            "x-cmq-message-tag": ", ".join(message.tags),
        }


class _CmqJson(_CmqSimplified):
    """CMQ's JSON body over HTTP. Binary bodies are base64."""

    def shared_part(self, message: Message) -> bytes:
        draft = message.draft
        fields = {
            "msgId": message.message_id,
            "msgBody": draft.body.decode() if draft.is_text else base64_text(draft.body),
            "publishTime": message.accepted_at // 1000,
        }
        return compact_json(fields)[1:-1]

    def parts(self, push: Push, shared: bytes, account: str) -> tuple[bytes, ...]:
        owner = int(account)  # CMQ sends it as a number.
        named = {"TopicOwner": owner, "topicName": push.message.topic, "subscriptionName": push.subscription.name}
        return compact_json(named)[:-1] + b",", shared, b"}"


class _CloudEvents(Format):
    """A CloudEvent: in binary mode over HTTP, otherwise in structured mode."""

    batch_type = CLOUDEVENTS_BATCH_TYPE

    def headers(self, message: Message) -> dict[str, str]:
        attributes, media_type = _cloudevent_attributes(message).items(), content_type(message)
        headers = {f"ce-{name}": cloudevent_header(value) for name, value in attributes}
        if media_type.lower().startswith(_CLOUDEVENTS_TYPE):  # Its body would look like a whole event.
            media_type = JSON_TYPE if _JSON_TYPE_PATTERN.fullmatch(media_type) else BYTES_TYPE
        return {"content-type": media_type, **headers}

    def queue_message(self, push: Push) -> QueueMessage:
        return QueueMessage(structured_cloudevent(push.message), push.message.trace.fields)

    def function_event(self, push: Push) -> bytes:
        return structured_cloudevent(push.message).encode()

    def shared_item(self, message: Message) -> bytes:
        return structured_cloudevent(message).encode()


_JSON, _SIMPLIFIED, _CLOUDEVENTS = _Json(), _Simplified(), _CloudEvents()
_CMQ_JSON, _CMQ_SIMPLIFIED = _CmqJson(), _CmqSimplified()


def format_of(content_format: ContentFormat) -> Format:
    """Return the :class:`Format` that implements *content_format*."""
    match content_format:
        case ContentFormat.JSON:
            return _JSON
        case ContentFormat.SIMPLIFIED:
            return _SIMPLIFIED
        case ContentFormat.CLOUDEVENTS:
            return _CLOUDEVENTS
        case ContentFormat.CMQ_JSON:
            return _CMQ_JSON
        case ContentFormat.CMQ_SIMPLIFIED:
            return _CMQ_SIMPLIFIED


def envelope(push: Push) -> dict[str, object]:
    """Return the body of a push in the content format ``json``: the message with all its attributes."""
    return {**_fields_before(push), **_shared_fields(push.message), **_fields_after(push)}


def _fields_before(push: Push) -> dict[str, object]:
    return {"topic": push.message.topic, "subscription": push.subscription.name}


def _shared_fields(message: Message) -> dict[str, object]:
    return {
        "message_id": message.message_id,
        **body_fields(message),
        **declared_json(message.draft),
        "accepted_at": rfc3339(message.accepted_at),
        "expires_at": rfc3339(message.expires_at),
        **message.trace.fields,
    }


def _fields_after(push: Push) -> dict[str, object]:
    return {"attempt": push.attempt, **_replay_mark(push.message)}


def structured_cloudevent(message: Message) -> str:
    """Return *message* as a CloudEvent in ASCII JSON. JSON data is embedded; invalid JSON becomes ``data_base64``."""
    draft, media_type = message.draft, content_type(message)
    attributes: dict[str, object] = {**_cloudevent_attributes(message), "datacontenttype": media_type}
    if _JSON_TYPE_PATTERN.fullmatch(media_type) is None:
        field, value = ("data", draft.body.decode()) if draft.is_text else ("data_base64", base64_text(draft.body))
        return json.dumps(attributes | {field: value}, separators=(",", ":"))
    if (raw := valid_json(draft.body)) is None:
        return json.dumps(attributes | {"data_base64": base64_text(draft.body)}, separators=(",", ":"))
    return f'{json.dumps(attributes, separators=(",", ":"))[:-1]},"data":{ascii_json(raw)}}}'


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
    # In the documented extension "partitioning", the key must not be empty.
    return attributes | ({"partitionkey": message.ordering_key} if message.ordering_key else {})


def cloudevent_header(value: str) -> str:
    """Return *value* encoded for a ``ce-`` header (CloudEvents HTTP binding, 3.1.3.2).

    Space, double quote, percent and all characters outside printable ASCII become percent-encoded UTF-8.

    >>> cloudevent_header('Euro € 😀 "5%"')
    'Euro%20%E2%82%AC%20%F0%9F%98%80%20%225%25%22'
    """
    return quote(value, safe=_CE_PLAIN, errors="replace")


def content_type(message: Message) -> str:
    """Return the producer's media type if it is a valid header value, otherwise a type for text or bytes."""
    declared = message.draft.content_type
    if declared is not None and _HEADER_TEXT.fullmatch(declared):
        return declared
    return TEXT_TYPE if message.draft.is_text else BYTES_TYPE


def body_fields(message: Message) -> dict[str, str]:
    """Return the body as a JSON field: ``body`` with the text, or ``body_base64`` if the body is not text."""
    draft = message.draft
    return {"body": draft.body.decode()} if draft.is_text else {"body_base64": base64_text(draft.body)}


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":")).encode


def compact_json(value: Mapping[str, object]) -> bytes:
    """Return *value* as JSON without spaces, in UTF-8.

    >>> compact_json({"a": "é"}).decode(), compact_json({"a": "\\ud800"}).decode()
    ('{"a":"é"}', '{"a":"\\\\ud800"}')
    """
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:  # A lone surrogate is legal in JSON text, but only escaped.
        return _encode_ascii(value).encode()


def valid_json(body: bytes) -> str | None:
    """Return *body* as text if it is JSON (without NaN), else None.

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
    """Return *text*, which is JSON, in ASCII. Other characters occur only in its strings, and are escaped.

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
