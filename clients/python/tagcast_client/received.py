"""Reads pushes over HTTP in every content format: a single message, or the messages of a batch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from tagcast_client.body import WithBody, body_of
from tagcast_client.errors import TagcastError
from tagcast_client.outgoing import MessageAttributes

BATCH_TYPE = "application/cloudevents-batch+json"
BATCH_HEADER, BATCH_ID = "x-tagcast-batch", "batch_"
"""The header of a batch, and the beginning of its id. The signature covers only the id, not the header."""
_JSON_TYPE = re.compile(r"[^;\s/]+/(?:json|[^;\s]+\+json)\s*(?:;.*)?", re.IGNORECASE)
"""Data of these media types is embedded as JSON (CloudEvents JSON format, 3.1.1)."""


class UnreadableError(TagcastError):
    """The request is not a push of tagcast. Respond 401, as for an unverified request."""


@dataclass(frozen=True, slots=True)
class Received(WithBody):
    """A pushed message. Fields that the content format of the push does not contain are None.

    The format `json` contains all fields. `cloudevents` has no *expires_at*, *properties* and *routing_key*.
    `simplified` has neither these nor *accepted_at* and *ordering_key*. A delivery may be repeated, with the same
    *message_id* and *subscription*, but maybe with another *attempt*.
    """

    message_id: str
    topic: str
    subscription: str
    attempt: int
    body: bytes
    content_type: str | None = None
    tags: tuple[str, ...] | None = None
    routing_key: str | None = None
    properties: Mapping[str, str] | None = None
    ordering_key: str | None = None
    accepted_at: datetime | None = None
    expires_at: datetime | None = None
    replay_of: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled(Received):
    """A pulled message: a `Received` with the *receipt_handle* of this pull."""

    tags: tuple[str, ...]
    properties: Mapping[str, str]
    accepted_at: datetime
    expires_at: datetime
    receipt_handle: str


def read(headers: Mapping[str, str], body: bytes) -> Received:
    """Return the message of a push **without verifying it**. Raises UnreadableError, also for a batch."""
    lowered = {name.lower(): value for name, value in headers.items()}
    if BATCH_HEADER in lowered:
        raise UnreadableError(
            "several messages in one push: `read_batch` reads them, `verify_batch` with its signature"
        )
    try:
        base = _of_headers(lowered, body)
        if base.message_id.startswith(BATCH_ID):
            raise ValueError(f"the id of a batch without the header {BATCH_HEADER}")
        envelope = _envelope(base, body)  # The signed envelope comes first: anyone can add headers of an event.
        if envelope is not None:
            return _unwrap_envelope(base, envelope)
        if lowered.get("ce-specversion"):
            event = {name[3:]: unquote(value) for name, value in lowered.items() if name.startswith("ce-")}
            return _event(base, event, base.body)
        return base
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as fault:
        raise UnreadableError(f"not a push of tagcast: {fault!r}") from fault


def read_batch(headers: Mapping[str, str], body: bytes) -> tuple[Received, ...]:
    """Return the messages of a push, with or without a batch, **without verifying it**. Raises UnreadableError."""
    lowered = {name.lower(): value for name, value in headers.items()}
    if BATCH_HEADER not in lowered:
        return (read(lowered, body),)
    try:
        request = replace(_of_headers(lowered, b""), content_type=None, tags=None)
        if not request.message_id.startswith(BATCH_ID):
            raise ValueError(f"the header {BATCH_HEADER} without the id of a batch")
        media_type = lowered.get("content-type", "").partition(";")[0].strip().lower()
        one = _event_of_batch if media_type == BATCH_TYPE else _envelope_of_batch
        return tuple(one(request, item) for item in json.loads(body))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as fault:
        raise UnreadableError(f"not a batch of tagcast: {fault!r}") from fault


def item_failures(messages: Iterable[Received]) -> dict[str, list[dict[str, str]]]:
    """Return the JSON of a 2xx response that lists the failed *messages* of a batch. All other messages succeed.

    >>> item_failures([Received("07457000000000000001", "orders", "billing", 1, b"")])
    {'batchItemFailures': [{'itemIdentifier': '07457000000000000001'}]}
    """
    return {"batchItemFailures": [{"itemIdentifier": each.message_id} for each in messages]}


def _envelope_of_batch(request: Received, item: Mapping[str, Any]) -> Received:
    if (item["topic"], item["subscription"]) != (request.topic, request.subscription):
        raise ValueError("the message is of another topic or subscription than the push")
    return _unwrap_envelope(_in_batch(request, str(item["message_id"]), item), item)


def _event_of_batch(request: Received, item: Mapping[str, Any]) -> Received:
    base = _in_batch(request, str(item["id"]), item)
    if "data_base64" not in item and _JSON_TYPE.fullmatch(item["datacontenttype"]):
        return _event(base, item, json.dumps(item["data"]).encode())
    return _event(base, item, _octets(item, "data", "data_base64"))


def _in_batch(request: Received, message_id: str, item: Mapping[str, Any]) -> Received:
    traceparent, tracestate = item.get("traceparent"), item.get("tracestate")
    return replace(request, message_id=message_id, traceparent=traceparent, tracestate=tracestate)


def _of_headers(headers: Mapping[str, str], body: bytes) -> Received:
    tags = headers.get("x-tagcast-tags")
    return Received(
        message_id=headers["webhook-id"],
        topic=headers["x-tagcast-topic"],
        subscription=headers["x-tagcast-subscription"],
        attempt=int(headers["x-tagcast-attempt"]),
        body=body,
        content_type=headers.get("content-type"),
        tags=None if tags is None else tuple(json.loads(tags)),
        replay_of=headers.get("x-tagcast-replay-of"),
        traceparent=headers.get("traceparent"),
        tracestate=headers.get("tracestate"),
    )


def _envelope(base: Received, body: bytes) -> dict[str, Any] | None:
    """Return the envelope in a body, or None if the body is the message itself.

    An envelope has the message id of the headers. A producer does not know this id, so it cannot imitate an envelope.
    Raises ValueError if other headers differ from the envelope, because only the body is signed.
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("message_id") != base.message_id:
        return None
    expected = (base.topic, base.subscription, base.attempt)
    if tuple(found.get(name) for name in ("topic", "subscription", "attempt")) != expected:
        raise ValueError("the headers are of another topic, subscription or attempt than the envelope")
    return found


def _octets(found: Mapping[str, Any], text_name: str, octets_name: str) -> bytes:
    octets = body_of(found, text_name, octets_name)
    if octets is None:
        raise KeyError(text_name)
    return octets


def _unwrap_envelope(base: Received, found: Mapping[str, Any]) -> Received:
    return replace(
        base,
        body=_octets(found, "body", "body_base64"),
        # An older service sends fewer attributes.
        **{name: found.get(name) for name in MessageAttributes.__annotations__} | {"tags": tuple(found["tags"])},
        accepted_at=datetime.fromisoformat(found["accepted_at"]),
        expires_at=datetime.fromisoformat(found["expires_at"]),
        replay_of=found.get("replay_of"),
    )


def _event(base: Received, attributes: Mapping[str, str], body: bytes) -> Received:
    if attributes["id"] != base.message_id:
        raise ValueError("the event has another id than the push")
    return replace(
        base,
        body=body,
        content_type=attributes.get("datacontenttype", base.content_type),
        ordering_key=attributes.get("partitionkey"),
        accepted_at=datetime.fromisoformat(attributes["time"]),
        replay_of=attributes.get("replayof", base.replay_of),
    )
