"""Receiving what tagcast pushes over HTTP: verified, then read, whatever the subscription's content format."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import floor
from typing import Any
from urllib.parse import unquote

from standardwebhooks import Webhook, WebhookVerificationError
from standardwebhooks.webhooks import hmac_data

from tagcast_client.errors import TagcastError

STRUCTURED_TYPE = "application/cloudevents+json"


class VerificationError(TagcastError):
    """The request does not come from a holder of the secret, or is too old or too new: answer 401, process nothing."""


class UnreadableError(TagcastError):
    """The request is signed and yet no push of tagcast: answer 400."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message as one push brought it; a field is None where the content format does not carry it.

    Deliveries may repeat: *message_id* and *subscription* are the same then, *attempt* is not.
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
    replay_of: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None

    @property
    def text(self) -> str:
        """The body as text. Raises UnicodeDecodeError."""
        return self.body.decode()

    @property
    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return json.loads(self.body)


class Receiver:
    """Verifies and reads pushes of a subscription; any of *secrets* may have signed, so that they can be changed.

    A signature counts for five minutes before and after the instant that it names. What comes twice within that time
    is for a `Deduplicator` to tell.
    """

    def __init__(self, *secrets: str) -> None:
        if not secrets:
            raise ValueError("a receiver needs the subscription's secret; `read` reads without verifying")
        for secret in secrets:
            Webhook(secret)  # It raises for what is no secret.
        self._secrets = secrets

    def verify(self, headers: Mapping[str, str], body: bytes) -> Received:
        """Return the message of a push whose signature holds. Raises VerificationError, UnreadableError."""
        lowered = {name.lower(): value for name, value in headers.items()}
        for secret in self._secrets:
            if _is_signed(secret, lowered, body):
                return read(lowered, body)
        raise VerificationError("no signature of this request holds, or its timestamp is not within five minutes")


class _Signed(Webhook):
    """Verifies the octets of *body*; the library verifies text, and a body may be anything."""

    def __init__(self, secret: str, body: bytes) -> None:
        super().__init__(secret)
        self._body = body

    def sign(self, msg_id: str, timestamp: datetime, data: str) -> str:
        signed = f"{msg_id}.{floor(timestamp.timestamp())}.".encode() + self._body
        return f"v1,{base64.b64encode(hmac_data(self._whsecret, signed)).decode()}"


def _is_signed(secret: str, headers: dict[str, str], body: bytes) -> bool:
    try:
        _Signed(secret, body).verify("", headers, json_parse=False)
    except (WebhookVerificationError, ValueError, binascii.Error):  # Malformed signatures are some of these.
        return False
    return True


def read(headers: Mapping[str, str], body: bytes) -> Received:
    """Return the message of a push **without verifying it**. Raises UnreadableError."""
    lowered = {name.lower(): value for name, value in headers.items()}
    try:
        base = _of_headers(lowered, body)
        if lowered.get("ce-specversion"):
            return _binary_event(base, lowered)
        if lowered.get("content-type", "").partition(";")[0].strip().lower() == STRUCTURED_TYPE:
            return _structured_event(base, json.loads(body))
        envelope = _envelope(base, body)
        return base if envelope is None else _enveloped(base, envelope)
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise UnreadableError(f"no push of tagcast: {fault!r}") from fault


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
    """Return the envelope, or None where the body stands alone.

    An envelope repeats what the headers say, the id of the message among it: no producer knows that beforehand.
    """
    try:
        found = json.loads(body)
    except ValueError:
        return None
    said = (base.message_id, base.topic, base.subscription, base.attempt)
    names = ("message_id", "topic", "subscription", "attempt")
    is_envelope = isinstance(found, dict) and tuple(found.get(name) for name in names) == said
    return found if is_envelope else None


def _octets(found: Mapping[str, Any], text_name: str, octets_name: str) -> bytes:
    if octets_name in found:
        return base64.b64decode(found[octets_name], validate=True)
    return str(found[text_name]).encode("utf-8", "surrogatepass")


def _enveloped(base: Received, found: Mapping[str, Any]) -> Received:
    return Received(
        message_id=base.message_id,
        topic=base.topic,
        subscription=base.subscription,
        attempt=base.attempt,
        body=_octets(found, "body", "body_base64"),
        tags=tuple(found["tags"]),
        routing_key=found.get("routing_key"),
        properties=found["properties"],
        accepted_at=datetime.fromisoformat(found["accepted_at"]),
        replay_of=found.get("replay_of"),
        traceparent=base.traceparent,
        tracestate=base.tracestate,
    )


def _event(base: Received, attributes: Mapping[str, str], body: bytes) -> Received:
    if attributes["id"] != base.message_id:
        raise ValueError("the event has another id than the push")
    return Received(
        message_id=base.message_id,
        topic=base.topic,
        subscription=base.subscription,
        attempt=base.attempt,
        body=body,
        content_type=attributes.get("datacontenttype", base.content_type),
        tags=base.tags,
        ordering_key=attributes.get("partitionkey"),
        accepted_at=datetime.fromisoformat(attributes["time"]),
        replay_of=attributes.get("replayof", base.replay_of),
        traceparent=base.traceparent,
        tracestate=base.tracestate,
    )


def _binary_event(base: Received, headers: Mapping[str, str]) -> Received:
    attributes = {name[3:]: unquote(value) for name, value in headers.items() if name.startswith("ce-")}
    return _event(base, attributes, base.body)


def _structured_event(base: Received, found: Mapping[str, Any]) -> Received:
    if "data_base64" in found or isinstance(found.get("data"), str):
        is_json = "json" in found.get("datacontenttype", "")
        if "data_base64" in found or not is_json:
            return _event(base, found, _octets(found, "data", "data_base64"))
    return _event(base, found, json.dumps(found.get("data")).encode())
