"""API Gateway's HTTP API, and the URL of a function: requests as events of payload 2.0 to a function."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from local.front.http_event import HttpRequest, event_of, response_of
from local.template.intrinsics import Resolver
from tests.aws import limits
from tests.aws.lambdas import Ended, Function, Functions
from tests.aws.quotas import shares_of
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


def own_answer(status: int, text: str) -> Answer:
    """Return what AWS answers itself."""
    return Answer(status, {}, json.dumps({"message": text}).encode())


def answer_of(ended: Ended) -> Answer:
    """Return what becomes of the answer of a function that gave one."""
    response = response_of(json.dumps(ended.answer).encode())
    return Answer(response.status, {name.lower(): value for name, value in response.headers}, response.body)


@dataclass(frozen=True)
class Events:
    """Makes events of payload 2.0 for the API that a host's name leads to."""

    timeline: Timeline
    host: str

    def event(self, method: str, path: str, key: str, body: str | None, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the event of a request."""
        given = {"host": self.host, "content-type": "application/json", **headers}
        event = event_of(HttpRequest(method, path, "", tuple(given.items()), (body or "").encode()), key, {}, ())
        event["requestContext"] |= {"requestId": f"r{self.timeline.micros}", "timeEpoch": self.timeline.now}
        return event


class FunctionUrl:
    """The URL of a function: whatever its path, the function gets it, and nobody gives up before the function does."""

    def __init__(self, timeline: Timeline, functions: Functions, function: Function) -> None:
        self._events = Events(timeline, "publish.lambda-url.us-east-1.on.aws")
        self._functions, self._function = functions, function

    def ask(self, method: str, path: tuple[str, ...], then: Callable[[Answer], None], *, body: Any = None) -> None:
        """Send a request; *then* gets the answer."""
        content = None if body is None else json.dumps(body)
        event = self._events.event(method, raw_path(path), "$default", content, {})
        self._functions.start(self._function, event, lambda ended: then(self._answer(ended)))

    @staticmethod
    def _answer(ended: Ended) -> Answer:
        match ended.error:
            case None:
                return answer_of(ended)
            case "TooManyRequestsException":
                return own_answer(429, "Too Many Requests")
            case "RequestTooLargeException":
                return own_answer(413, "Request Entity Too Large")
        return own_answer(502, "Internal Server Error")


def raw_path(parts: tuple[str, ...]) -> str:
    """Return a path as it is sent."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


class HttpApi:
    """The routes of the template, with the API's own time limit."""

    def __init__(self, timeline: Timeline, stack: Resolver, functions: Functions) -> None:
        self._timeline, self._functions = timeline, functions
        self._events = Events(timeline, "api.example")
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
        raw = raw_path(path)
        content = None if body is None else json.dumps(body)
        if content is not None and len(content) > limits.HTTP_API_PAYLOAD_BYTES_MAX:
            then(own_answer(413, "Request Entity Too Large"))
            return
        if not self._functions.box.quotas.take(*shares_of("execute-api:Invoke", "")):
            then(own_answer(429, "Too Many Requests"))
            return
        found = self._route(method, raw)
        if found is None:
            then(own_answer(404, "Not Found"))
            return
        key, parameters, function = found
        event = self._events.event(method, raw, key, content, headers or {})
        if parameters:
            event["pathParameters"] = {name: unquote(value) for name, value in parameters.items()}
        answered = _once(then)
        self._timeline.after(limits.HTTP_API_TIMEOUT_S * 1000, lambda: answered(own_answer(503, "timeout")))
        self._functions.start(function, event, lambda ended: answered(self._answer(ended)), label=label, action=action)

    def _route(self, method: str, raw: str) -> tuple[str, Mapping[str, str], Function] | None:
        for route_method, pattern, key, function in self._routes:
            found = pattern.fullmatch(raw)
            if route_method == method and found:
                return key, found.groupdict(), function
        return None

    @staticmethod
    def _answer(ended: Ended) -> Answer:
        if ended.error == "TooManyRequestsException":
            return own_answer(503, "Service Unavailable")
        if ended.error is not None:
            return own_answer(500, "Internal Server Error")
        return answer_of(ended)


def _once(then: Callable[[Answer], None]) -> Callable[[Answer], None]:
    """Let only the first answer through: after its time limit the API listens to nobody."""
    waiting = [then]
    return lambda answer: waiting.pop()(answer) if waiting else None
