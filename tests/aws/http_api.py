"""API Gateway's HTTP API: requests as events of payload 2.0 to the function of their route, with its time limit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from local.front.http_event import response_of
from local.template.intrinsics import Resolver
from tests.aws import limits
from tests.aws.lambdas import Ended, Function, Functions
from tests.aws.timeline import Timeline


@dataclass(frozen=True)
class Answer:
    """What the client of the API gets."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body) if self.body else None


class HttpApi:
    """The routes of the template."""

    def __init__(self, timeline: Timeline, stack: Resolver, functions: Functions) -> None:
        self._timeline, self._functions = timeline, functions
        self._routes = []
        for route in stack.template.routes():
            pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route.path))
            self._routes.append(
                (route.method, pattern, f"{route.method} {route.path}", functions.by_id[route.function])
            )
        # A route without variables wins over one with them, as the more exact one.
        self._routes.sort(key=lambda each: each[2].count("{"))

    def ask(
        self,
        method: str,
        path: tuple[str, ...],
        then: Callable[[Answer], None],
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        label: str = "",
        action: Any = None,
    ) -> None:
        """Send a request; *then* gets the answer."""
        raw = "/" + "/".join(quote(part, safe="") for part in path)
        content = None if body is None else json.dumps(body)
        if content is not None and len(content) > limits.HTTP_API_PAYLOAD_BYTES_MAX:
            then(self._own(413, "Request Entity Too Large"))
            return
        found = self._route(method, raw)
        if found is None:
            then(self._own(404, "Not Found"))
            return
        key, parameters, function = found
        event = self._event(method, raw, key, parameters, content, headers or {})
        answered = _Once(then)
        self._timeline.after(limits.HTTP_API_TIMEOUT_S * 1000, lambda: answered(self._own(503, "timeout")))
        self._functions.start(function, event, lambda ended: answered(self._answer(ended)), label=label, action=action)

    def _route(self, method: str, raw: str) -> tuple[str, Mapping[str, str], Function] | None:
        for route_method, pattern, key, function in self._routes:
            found = pattern.fullmatch(raw)
            if route_method == method and found:
                return key, found.groupdict(), function
        return None

    def _answer(self, ended: Ended) -> Answer:
        if ended.error == "TooManyRequestsException":
            return self._own(503, "Service Unavailable")
        if ended.error is not None:
            return self._own(500, "Internal Server Error")
        response = response_of(json.dumps(ended.answer).encode())
        return Answer(response.status, {name.lower(): value for name, value in response.headers}, response.body)

    @staticmethod
    def _own(status: int, text: str) -> Answer:
        return Answer(status, {}, json.dumps({"message": text}).encode())

    def _event(
        self,
        method: str,
        path: str,
        key: str,
        parameters: Mapping[str, str],
        body: str | None,
        headers: Mapping[str, str],
    ) -> dict[str, Any]:
        sent = {"host": "api.example", "content-type": "application/json", **headers}
        event: dict[str, Any] = {
            "version": "2.0",
            "routeKey": key,
            "rawPath": path,
            "rawQueryString": "",
            "headers": sent,
            "requestContext": {
                "accountId": "123456789012",
                "apiId": "api",
                "domainName": "api.example",
                "domainPrefix": "api",
                "http": {
                    "method": method,
                    "path": path,
                    "protocol": "HTTP/1.1",
                    "sourceIp": "192.0.2.1",
                    "userAgent": "producer",
                },
                "requestId": f"r{self._timeline.micros}",
                "routeKey": key,
                "stage": "$default",
                "timeEpoch": self._timeline.now,
            },
            "isBase64Encoded": False,
        }
        if parameters:
            event["pathParameters"] = {name: unquote(value) for name, value in parameters.items()}
        if body is not None:
            event["body"] = body
        return event


class _Once:
    """Lets only the first answer through: after its time limit the API listens to nobody."""

    def __init__(self, then: Callable[[Answer], None]) -> None:
        self._then: Callable[[Answer], None] | None = then

    def __call__(self, answer: Answer) -> None:
        then, self._then = self._then, None
        if then is not None:
            then(answer)
