"""Tests of programs that use tagcast: an API in memory, and pushes signed as the service signs them.

Nothing here opens a socket. `tagcast_client.pytest_plugin` has both as fixtures.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from standardwebhooks.webhooks import hmac_data

from tagcast_client._async.client import AsyncClient
from tagcast_client._sync.client import Client
from tagcast_client.body import WithBody, body_of
from tagcast_client.verifying import SECRET_PREFIX, verifier_of

TEST_SECRET = "whsec_dGFnY2FzdCBzaWducyB0ZXN0IHB1c2hlcy4="
"""A secret for tests, with which `sign_push` signs unless another is named."""
TEST_URL = "http://tagcast.test"
LIFE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Published(WithBody):
    """A message that the fake accepted."""

    topic: str
    message_id: str
    body: bytes
    tags: tuple[str, ...] = ()
    routing_key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    ordering_key: str | None = None
    content_type: str | None = None


@dataclass(slots=True)
class _Kept:
    """A topic or a subscription."""

    settings: dict[str, Any]
    version: int = 1
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    updated_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    subscriptions: dict[str, _Kept] = field(default_factory=dict)

    def change(self, settings: dict[str, Any]) -> None:
        self.settings, self.version, self.updated_at = settings, self.version + 1, datetime.now(UTC)

    def shown(self) -> dict[str, Any]:
        instants = {"created_at": self.created_at.isoformat(), "updated_at": self.updated_at.isoformat()}
        return {**self.settings, **instants, "version": self.version}


class FakeApi(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """An API in memory for publishers: topics, subscriptions, `publish` and `publish_batch`.

    It records accepted messages in *published* and evaluates no filter: *matched* counts all subscriptions of a topic.
    It checks no limits. Any other request answers 501.
    """

    def __init__(self) -> None:
        self.published: list[Published] = []
        self._topics: dict[str, _Kept] = {}
        self._accepted: dict[tuple[str, str], dict[str, Any]] = {}

    def client(self) -> Client:
        """Return a client of this API."""
        return Client(TEST_URL, transport=self)

    def async_client(self) -> AsyncClient:
        """Return an asynchronous client of this API."""
        return AsyncClient(TEST_URL, transport=self)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of a synchronous client."""
        request.read()
        said = json.loads(request.content) if request.content else {}
        for method, pattern, answer in self._routes():
            found = re.fullmatch(pattern, request.url.path)
            if found and request.method == method:
                try:
                    return httpx.Response(200, json=answer(*found.groups(), said, request.headers))
                except _RefusedError as refused:
                    return _problem(refused.status, str(refused))
        return _problem(501, f"the fake does not answer {request.method} {request.url.path}")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of an asynchronous client."""
        await request.aread()
        return self.handle_request(request)

    def _routes(self) -> Sequence[tuple[str, str, Callable[..., Any]]]:
        topic = "/topics/([^/]+)"
        subscription = f"{topic}/subscriptions/([^/]+)"
        return (
            ("GET", "/health", lambda said, headers: {"status": "ok", "version": "fake"}),
            ("GET", topic, lambda name, said, headers: self._topic(name)),
            ("PUT", topic, self._put_topic),
            ("PATCH", topic, self._patch_topic),
            ("GET", subscription, lambda topic, name, said, headers: self._subscription(topic, name)),
            ("PUT", subscription, self._put_subscription),
            ("PATCH", subscription, self._patch_subscription),
            ("POST", f"{subscription}/secret/rotate", self._rotate_secret),
            ("POST", f"{topic}/messages", self._publish),
            ("POST", f"{topic}/messages/batch", self._publish_batch),
        )

    def _topic(self, name: str) -> dict[str, Any]:
        found = _found(self._topics, "topic", name)
        return {**found.shown(), "name": name, "subscriptions": len(found.subscriptions)}

    def _put_topic(self, name: str, said: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        _put(self._topics, name, {**_TOPIC, **said}, headers)
        return self._topic(name)

    def _patch_topic(self, name: str, said: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        found = _found(self._topics, "topic", name, headers)
        found.change({**_TOPIC, **_merged(found.settings, said)})
        return self._topic(name)

    def _kept(self, topic: str, name: str, headers: Mapping[str, str] | None = None) -> _Kept:
        return _found(_found(self._topics, "topic", topic).subscriptions, "subscription", name, headers)

    def _subscription(self, topic: str, name: str) -> dict[str, Any]:
        found = self._kept(topic, name)
        shown = {field: value for field, value in found.shown().items() if field not in ("secret", "headers")}
        signatures = ["v1"] if found.settings.get("secret") else []
        return {**shown, "topic": topic, "name": name, "signatures": signatures}

    def _put_subscription(
        self, topic: str, name: str, said: Mapping[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        subscriptions = _found(self._topics, "topic", topic).subscriptions
        _put(subscriptions, name, _whole(said), headers)
        return self._subscription(topic, name)

    def _patch_subscription(
        self, topic: str, name: str, said: Mapping[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        found = self._kept(topic, name, headers)
        present = {field: value for field, value in found.settings.items() if field != "ordered"}
        if said.get("ordered") and "retry" not in said and present["retry"]["strategy"] != _IN_ORDER["strategy"]:
            del present["retry"]
        found.change(_whole(_merged(present, said)))
        return self._subscription(topic, name)

    def _rotate_secret(
        self, topic: str, name: str, said: Mapping[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        found = self._kept(topic, name, headers)
        secret = said.get("secret", TEST_SECRET)
        if found.settings.get("secret") != secret:
            found.change({**found.settings, "secret": secret})
        shown = self._subscription(topic, name)
        return shown if "secret" in said else {**shown, "secret": secret}

    def _publish(self, topic: str, said: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        return self._accept(topic, said, headers.get("idempotency-key"))

    def _publish_batch(self, topic: str, said: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        key = headers.get("idempotency-key")
        keys = [None if key is None else f"{key}/{place}" for place in range(len(said["messages"]))]
        pairs = zip(said["messages"], keys, strict=True)
        return {"results": [self._accept(topic, *each) for each in pairs]}

    def _accept(self, topic: str, said: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        subscriptions = _found(self._topics, "topic", topic).subscriptions
        if key is not None and (topic, key) in self._accepted:
            return self._accepted[topic, key]
        message = Published(
            topic=topic,
            message_id=f"{len(self.published) + 1:020}",
            body=body_of(said) or b"",
            tags=tuple(said.get("tags", ())),
            routing_key=said.get("routing_key"),
            properties=said.get("properties", {}),
            ordering_key=said.get("ordering_key"),
            content_type=said.get("content_type"),
        )
        self.published.append(message)
        accepted = {
            "message_id": message.message_id,
            "accepted_at": datetime.now(UTC).isoformat(),
            "expires_at": (datetime.now(UTC) + LIFE).isoformat(),
            "matched": len(subscriptions),
        }
        if key is not None:
            self._accepted[topic, key] = accepted
        return accepted


_TOPIC: Mapping[str, Any] = {
    "retention_seconds": 86_400,
    "max_message_bytes": 65_536,
    "ordering": "topic",
    "keep": "pending",
}
_SUBSCRIPTION: Mapping[str, Any] = {
    "filter": None,
    "retry": {"strategy": "INDEPENDENT_RETRY", "max_retries": 176, "max_interval_seconds": 512},
    "timeout_seconds": 15,
    "content_format": "json",
}
_IN_ORDER: Mapping[str, Any] = {"strategy": "BACKOFF_RETRY", "max_retries": "life", "max_interval_seconds": 512}


def _whole(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a subscription with the defaults of those that are left out."""
    is_ordered, is_group = bool(settings.get("ordered")), settings["endpoint"]["protocol"] == "pull"
    by_default = {"retry": _IN_ORDER} if is_ordered and not is_group else {}
    whole = {**_SUBSCRIPTION, **by_default, **settings}
    retries_in_order = whole["retry"].get("strategy") == _IN_ORDER["strategy"]
    return {**whole, "ordered": is_ordered if is_group else retries_in_order}


class _RefusedError(Exception):
    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def _found(kept: Mapping[str, _Kept], what: str, name: str, headers: Mapping[str, str] | None = None) -> _Kept:
    if name not in kept:
        raise _RefusedError(404, f"no {what} {name}")
    wanted = (headers or {}).get("if-match")
    if wanted is not None and wanted != f'"{kept[name].version}"':
        raise _RefusedError(412, f"the {what} has version {kept[name].version}")
    return kept[name]


def _put(kept: dict[str, _Kept], name: str, settings: dict[str, Any], headers: Mapping[str, str]) -> None:
    if name not in kept:
        kept[name] = _Kept(settings)
    elif "if-none-match" in headers:
        raise _RefusedError(412, f"{name} exists")
    else:
        kept[name].change(settings)


def _merged(present: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return *present* with a merge patch (RFC 7396)."""
    found = dict(present)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            before = found.get(name)
            is_object = isinstance(value, Mapping)
            found[name] = _merged(before if isinstance(before, Mapping) else {}, value) if is_object else value
    return found


def sign_push(
    body: str | bytes,
    *,
    secret: str = TEST_SECRET,
    topic: str = "orders",
    subscription: str = "test",
    message_id: str = "00000000000000000001",
    attempt: int = 1,
    tags: Sequence[str] = (),
    content_type: str = "text/plain; charset=utf-8",
    at_s: float | None = None,
) -> tuple[dict[str, str], bytes]:
    """Return headers and body of a push in the content format `simplified`, signed with *secret* at *at_s*.

    Raises ValueError for what is no secret.

    >>> from tagcast_client import Receiver
    >>> Receiver(TEST_SECRET).verify(*sign_push("one apple", tags=["apple"])).tags
    ('apple',)
    """
    verifier_of(secret)
    octets = body.encode() if isinstance(body, str) else body
    sent_at_s = int(time.time() if at_s is None else at_s)
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signature = hmac_data(key, f"{message_id}.{sent_at_s}.".encode() + octets)
    headers = {
        "content-type": content_type,
        "webhook-id": message_id,
        "webhook-timestamp": str(sent_at_s),
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
        "x-tagcast-topic": topic,
        "x-tagcast-subscription": subscription,
        "x-tagcast-attempt": str(attempt),
        "x-tagcast-tags": json.dumps(list(tags)),
    }
    return headers, octets


def _problem(status: int, detail: str) -> httpx.Response:
    title = {404: "Not found", 412: "Precondition failed"}.get(status, "Not implemented")
    return httpx.Response(status, json={"title": title, "status": status, "detail": detail})
