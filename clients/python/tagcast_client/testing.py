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

from tagcast_client.async_client import AsyncClient
from tagcast_client.client import Client
from tagcast_client.verifying import SECRET_PREFIX, verifier_of

TEST_SECRET = "whsec_dGFnY2FzdCBzaWducyB0ZXN0IHB1c2hlcy4="
"""A secret for tests, with which `sign_push` signs unless another is named."""
TEST_URL = "http://tagcast.test"
LIFE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Published:
    """A message that the fake accepted."""

    topic: str
    message_id: str
    body: bytes
    tags: tuple[str, ...] = ()
    routing_key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    ordering_key: str | None = None
    content_type: str | None = None

    @property
    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return json.loads(self.body)


class FakeApi(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """An API in memory for publishers: topics, subscriptions, `publish` and `publish_batch`.

    It records accepted messages in *published* and evaluates no filter: *matched* counts all subscriptions of a topic.
    It checks no limits. Any other request answers 501.
    """

    def __init__(self) -> None:
        self.published: list[Published] = []
        self.topics: dict[str, dict[str, Any]] = {}
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
                return answer(*found.groups(), said, request.headers.get("idempotency-key"))
        return _problem(501, f"the fake does not answer {request.method} {request.url.path}")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of an asynchronous client."""
        await request.aread()
        return self.handle_request(request)

    def _routes(self) -> Sequence[tuple[str, str, Callable[..., httpx.Response]]]:
        topic = "/topics/([^/]+)"
        return (
            ("GET", "/health", lambda said, key: httpx.Response(200, json={"status": "ok", "version": "fake"})),
            ("PUT", topic, self._put_topic),
            ("GET", topic, lambda name, said, key: self._topic(name, lambda found: _shown(name, found))),
            ("PUT", f"{topic}/subscriptions/([^/]+)", self._put_subscription),
            ("POST", f"{topic}/messages", self._publish),
            ("POST", f"{topic}/messages/batch", self._publish_batch),
        )

    def _topic(self, name: str, answer: Callable[[dict[str, Any]], Any]) -> httpx.Response:
        if name not in self.topics:
            return _problem(404, f"no topic {name}")
        return httpx.Response(200, json=answer(self.topics[name]))

    def _put_topic(self, name: str, said: Mapping[str, Any], key: str | None) -> httpx.Response:
        known = self.topics.get(name, {"version": 0, "created_at": _now().isoformat(), "subscriptions": {}})
        self.topics[name] = {**known, **said, "version": known["version"] + 1}
        return self._topic(name, lambda found: _shown(name, found))

    def _put_subscription(self, topic: str, name: str, said: Mapping[str, Any], key: str | None) -> httpx.Response:
        def put(found: dict[str, Any]) -> dict[str, Any]:
            known = found["subscriptions"].get(name, {"version": 0, "created_at": _now().isoformat()})
            version = known["version"] + 1
            found["subscriptions"][name] = {"version": version, "created_at": known["created_at"]}
            return {
                "topic": topic,
                "name": name,
                "filter": None,
                "retry": {},
                "timeout_seconds": 15,
                "content_format": "json",
                "signatures": ["v1"] if said.get("secret") else [],
                **{field: value for field, value in said.items() if field not in ("secret", "headers")},
                "version": version,
                "created_at": known["created_at"],
                "updated_at": _now().isoformat(),
            }

        return self._topic(topic, put)

    def _publish(self, topic: str, said: Mapping[str, Any], key: str | None) -> httpx.Response:
        return self._topic(topic, lambda found: self._accept(topic, found, said, key))

    def _publish_batch(self, topic: str, said: Mapping[str, Any], key: str | None) -> httpx.Response:
        keys = [None if key is None else f"{key}/{place}" for place in range(len(said["messages"]))]
        pairs = list(zip(said["messages"], keys, strict=True))
        return self._topic(topic, lambda found: {"results": [self._accept(topic, found, *each) for each in pairs]})

    def _accept(self, topic: str, found: Mapping[str, Any], said: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        if key is not None and (topic, key) in self._accepted:
            return self._accepted[topic, key]
        octets = said.get("body_base64")
        message = Published(
            topic=topic,
            message_id=f"{len(self.published) + 1:020}",
            body=base64.b64decode(octets) if octets is not None else said["body"].encode("utf-8", "surrogatepass"),
            tags=tuple(said.get("tags", ())),
            routing_key=said.get("routing_key"),
            properties=said.get("properties", {}),
            ordering_key=said.get("ordering_key"),
            content_type=said.get("content_type"),
        )
        self.published.append(message)
        accepted = {
            "message_id": message.message_id,
            "accepted_at": _now().isoformat(),
            "expires_at": (_now() + LIFE).isoformat(),
            "matched": len(found["subscriptions"]),
        }
        if key is not None:
            self._accepted[topic, key] = accepted
        return accepted


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


def _now() -> datetime:
    return datetime.now(UTC)


def _shown(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "retention_seconds": 86_400,
        "max_message_bytes": 65_536,
        "ordering": "topic",
        "keep": "owed",
        **found,
        "name": name,
        "subscriptions": len(found["subscriptions"]),
        "updated_at": _now().isoformat(),
    }


def _problem(status: int, detail: str) -> httpx.Response:
    title = {404: "Not found"}.get(status, "Not implemented")
    return httpx.Response(status, json={"title": title, "status": status, "detail": detail})
