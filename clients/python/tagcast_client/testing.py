"""Support for tests, without sockets: an API in memory, signed pushes, and fixtures (`pytest_plugin`)."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from tagcast_client._async.client import AsyncClient
from tagcast_client._sync.client import Client
from tagcast_client.body import WithBody, body_of
from tagcast_client.changing import GENERATE, LONGEST, RETRY, RETRY_IN_ORDER
from tagcast_client.errors import ProblemError
from tagcast_client.outgoing import MessageAttributes, NewMessage
from tagcast_client.settings import SUBSCRIPTION_SETTINGS, TOPIC_SETTINGS
from tagcast_client.verifying import key_of, sign, signed_octets

TEST_SECRET = "whsec_dGFnY2FzdCBzaWducyB0ZXN0IHB1c2hlcy4="
"""A secret for tests, and the default of `sign_push`."""
TEST_URL = "http://tagcast.test"
GRACE_S = 86_400
_TOPIC = {each.name: each.default for each in TOPIC_SETTINGS if each.default is not None}
_SUBSCRIPTION = {"filter": None} | {each.name: each.default for each in SUBSCRIPTION_SETTINGS if each.default}
_BATCH = {"max_bytes": 262_144}
_SIGNED = ("http", "https")
_PATH = re.compile(r"/topics/([^/]+)(?:/subscriptions/([^/]+))?(/messages|/messages/batch|/secret/rotate)?")
_CODES = {404: "not_found", 409: "conflict", 412: "precondition_failed", 422: "invalid", 501: "not_implemented"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published(NewMessage, WithBody):
    """A message accepted by the fake API."""

    topic: str
    message_id: str
    body: bytes
    tags: tuple[str, ...]


def _refusal(status: int, detail: str) -> ProblemError:
    code = _CODES[status]
    title = code.replace("_", " ").capitalize()
    return ProblemError(status, {"title": title, "code": code, "status": status, "detail": detail}, "")


@dataclass(slots=True)
class _Resource:
    """A topic or a subscription."""

    settings: dict[str, Any]
    version: int = 1
    created_at: str = field(default_factory=lambda: _now())
    updated_at: str = field(default_factory=lambda: _now())
    subscriptions: dict[str, _Resource] = field(default_factory=dict)

    def change(self, settings: dict[str, Any]) -> None:
        self.settings, self.version, self.updated_at = settings, self.version + 1, _now()

    def show(self) -> dict[str, Any]:
        instants = {"created_at": self.created_at, "updated_at": self.updated_at}
        return {**self.settings, **instants, "version": self.version}


class FakeApi(httpx.MockTransport):
    """An API in memory for publishers: topics, subscriptions, `publish` and `publish_batch`.

    It records accepted messages in *published* and evaluates no filter, so *matched* counts all subscriptions of a
    topic. It refuses tags and properties that are not text, but checks no limits. A generated secret is always
    TEST_SECRET. Any other request gets 501.
    """

    def __init__(self) -> None:
        super().__init__(self._respond)
        self.published: list[Published] = []
        self._topics: dict[str, _Resource] = {}
        self._claims: dict[tuple[str, str], tuple[Mapping[str, Any], dict[str, Any]]] = {}

    def client(self) -> Client:
        """Return a client of this API."""
        return Client(TEST_URL, transport=self)

    def async_client(self) -> AsyncClient:
        """Return an asynchronous client of this API."""
        return AsyncClient(TEST_URL, transport=self)

    def _respond(self, request: httpx.Request) -> httpx.Response:
        fields = json.loads(request.content) if request.content else {}
        try:
            return httpx.Response(200, json=self._answer(request.method, request.url.path, fields, request.headers))
        except ProblemError as refused:
            return httpx.Response(refused.status, json=refused.problem)

    def _answer(self, method: str, path: str, fields: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        names = _PATH.fullmatch(path)
        topic, name, verb = names.groups() if names else ("", None, path)
        match method, verb:
            case "GET", "/health":
                return {"status": "ok", "version": "fake"}
            case (("GET" | "PUT" | "PATCH"), None) if name is None:
                self._change(self._topics, "topic", topic, method, fields, headers)
                found = self._topics[topic]
                retained = {"retained_messages": 0} if method == "GET" else {}
                return {**found.show(), "name": topic, "subscriptions": len(found.subscriptions), **retained}
            case (("GET" | "PUT" | "PATCH"), None):
                secret = {"secret": TEST_SECRET} if fields.get("secret") == GENERATE else {}
                self._change(
                    self._subscriptions(topic), "subscription", str(name), method, {**fields, **secret}, headers
                )
                return self._subscription(topic, str(name)) | secret
            case "POST", "/secret/rotate":
                return self._rotate_secret(topic, str(name), fields, headers)
            case "POST", "/messages" | "/messages/batch":
                return self._accept_once(topic, fields, headers.get("idempotency-key"))
        raise _refusal(501, f"the fake does not answer {method} {path}")

    def _change(
        self,
        resources: dict[str, _Resource],
        kind: str,
        name: str,
        method: str,
        fields: Mapping[str, Any],
        headers: Mapping[str, str],
    ) -> None:
        whole = _whole_subscription if kind == "subscription" else lambda given: {**_TOPIC, **given}
        if method == "PUT" and name not in resources:
            resources[name] = _Resource(whole(_merge({}, fields)))
        elif "if-none-match" in headers:
            raise _refusal(412, f"{name} exists")
        elif method != "GET":
            present = _find(resources, kind, name, headers)
            present.change(whole(_merge({}, fields) if method == "PUT" else _patch_settings(present.settings, fields)))
        _find(resources, kind, name)

    def _subscriptions(self, topic: str) -> dict[str, _Resource]:
        return _find(self._topics, "topic", topic).subscriptions

    def _subscription(self, topic: str, name: str) -> dict[str, Any]:
        settings = self._subscriptions(topic)[name].show()
        shown = {field: value for field, value in settings.items() if field not in ("secret", "headers")}
        signatures = ["v1"] if settings.get("secret") else []
        signatures += ["v1a"] if settings.get("signature") == "v1a" else []
        signatures = signatures if settings["endpoint"]["protocol"] in _SIGNED else []
        return {**shown, "topic": topic, "name": name, "signatures": signatures}

    def _rotate_secret(
        self, topic: str, name: str, fields: Mapping[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        found = _find(self._subscriptions(topic), "subscription", name, headers)
        if found.settings["endpoint"]["protocol"] not in _SIGNED:
            raise _refusal(409, "secrets are allowed only for pushes over HTTP")
        secret, former = fields.get("secret", TEST_SECRET), found.settings.get("secret")
        secrets = {} if "secret" in fields else {"secret": secret}
        if former is not None and (grace_s := fields.get("grace_seconds", GRACE_S)):
            secrets["former_secret_ends_at"] = _now(grace_s)
        if former != secret:
            found.change({**found.settings, "secret": secret})
        return self._subscription(topic, name) | secrets

    def _accept_once(self, topic: str, fields: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        before, answer = self._claims.get((topic, key or ""), (fields, None))
        if before != fields:
            raise _refusal(409, "this Idempotency-Key was used for a different request")
        if answer is None:
            if "messages" in fields:
                _find(self._topics, "topic", topic)
                answer = {"results": [self._accept_or_refuse(topic, each) for each in fields["messages"]]}
            else:
                answer = self._accept(topic, fields)
        if key is not None:
            self._claims[topic, key] = fields, answer
        return answer

    def _accept_or_refuse(self, topic: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._accept(topic, fields)
        except ProblemError as refused:
            return {"error": refused.problem}

    def _accept(self, topic: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        found = _find(self._topics, "topic", topic)
        for text in (*fields.get("tags", ()), *fields.get("properties", {}).values()):
            if not isinstance(text, str):
                raise _refusal(422, f"{text!r} in tags or properties must be a text")
        attributes = {name: fields[name] for name in MessageAttributes.__annotations__ if name in fields}
        attributes["tags"] = tuple(fields.get("tags", ()))
        message_id, body = f"{len(self.published) + 1:020}", body_of(fields) or b""
        self.published.append(Published(topic=topic, message_id=message_id, body=body, **attributes))
        instants = {"accepted_at": _now(), "expires_at": _now(found.settings["retention_seconds"])}
        return {**instants, "message_id": message_id, "matched": len(found.subscriptions)}


def _now(later_s: float = 0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=later_s)).isoformat()


def _find(
    resources: Mapping[str, _Resource], kind: str, name: str, headers: Mapping[str, str] | None = None
) -> _Resource:
    if name not in resources:
        raise _refusal(404, f"no {kind} {name}")
    if (headers or {}).get("if-match") not in (None, f'"{resources[name].version}"'):
        raise _refusal(412, f"the {kind} has version {resources[name].version}")
    return resources[name]


def _whole_subscription(settings: Mapping[str, Any]) -> dict[str, Any]:
    is_ordered, is_group = bool(settings.get("ordered")), settings["endpoint"]["protocol"] == "pull"
    whole = {**_SUBSCRIPTION, "retry": RETRY_IN_ORDER if is_ordered else RETRY, **settings}
    whole["retry"] = _whole_retry(whole["retry"])
    whole |= {"batch": _BATCH | settings["batch"]} if settings.get("batch") else {}
    whole |= {"start_from": "latest"} if is_group and not settings.get("start_from") else {}
    retries_in_order = whole["retry"]["strategy"] == RETRY_IN_ORDER["strategy"]
    return {**whole, "ordered": is_ordered if is_group else retries_in_order}


def _whole_retry(retry: Mapping[str, Any]) -> dict[str, Any]:
    """Return retry settings with their defaults. Only constant intervals have no maximum."""
    if retry.get("strategy") != RETRY_IN_ORDER["strategy"]:
        return {**RETRY, **retry}
    if retry.get("max_retries") == "life":
        return {**RETRY_IN_ORDER, **retry}
    return {"max_retries": 3} | {name: value for name, value in retry.items() if name not in LONGEST}


def _patch_settings(present: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with a merge patch.

    If the patch sets `ordered` but not `retry`, the retry settings become the defaults of ordered subscriptions. Only
    a group, and a patch that resets `retry`, keep the present order. Otherwise the strategy decides the order.
    """
    if present.get("endpoint", {}).get("protocol") == "pull" or ("retry" in patch and patch["retry"] is None):
        return _merge(present, patch)
    kept = {name: value for name, value in present.items() if name != "ordered"}
    if patch.get("ordered") and "retry" not in patch and kept["retry"]["strategy"] != RETRY_IN_ORDER["strategy"]:
        del kept["retry"]
    return _merge(kept, patch)


def _merge(present: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return *present* with a merge patch (RFC 7396)."""
    found = {name: value for name, value in present.items() if patch.get(name, value) is not None}
    for name, value in patch.items():
        if isinstance(value, Mapping):
            before = present.get(name)
            found[name] = _merge(before if isinstance(before, Mapping) else {}, value)
        elif value is not None:
            found[name] = value
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

    *at_s* is in seconds since 1970, by default now. Raises ValueError for an invalid secret.

    >>> from tagcast_client import Receiver
    >>> Receiver(TEST_SECRET).verify(*sign_push("one apple", tags=["apple"])).tags
    ('apple',)
    """
    octets = body.encode() if isinstance(body, str) else body
    timestamp = str(int(time.time() if at_s is None else at_s))
    signature = sign(key_of(secret), signed_octets(message_id, timestamp, octets))
    headers = {
        "content-type": content_type,
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
        "x-tagcast-topic": topic,
        "x-tagcast-subscription": subscription,
        "x-tagcast-attempt": str(attempt),
        "x-tagcast-tags": json.dumps(list(tags)),
    }
    return headers, octets
