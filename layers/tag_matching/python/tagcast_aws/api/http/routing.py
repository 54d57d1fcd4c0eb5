"""Route tables: find the route, validate the request, run one use case, translate its result."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tagcast.errors import Fault, InvalidRequestError
from tagcast.ports import World
from tagcast.strict_json import parse

from tagcast_aws.api.http.authorization import Rights, TokenScope, rights_of
from tagcast_aws.api.http.paging import json_text
from tagcast_aws.api.http.problems import (
    MEDIA_TYPE,
    Problem,
    ProblemCode,
    UnknownRouteError,
    UnknownVersionError,
    problem_of,
)
from tagcast_aws.api.http.requests import Request, checked_names, content_of, query_faults

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

    from tagcast_aws.api.http.body import Body

API_VERSION = "2026-11-25"
"""The version of the API. docs/http-api.md, Versions, lists the changes that one date allows."""
API_VERSIONS = (API_VERSION,)
"""The dates that a request may ask for."""
VERSION_HEADER = "tagcast-version"
REQUEST_ID_HEADER = "tagcast-request-id"
REPLAYED_HEADER = "idempotent-replayed"
"""This header is `true` if the answer repeats an earlier one."""


def request_id_of(event: Mapping[str, Any]) -> str:
    """Return the id of a request. API Gateway assigns it, or Lambda for a function URL."""
    return str(event.get("requestContext", {}).get("requestId", "unknown"))


def check_version(headers: Mapping[str, str]) -> None:
    """Raise UnknownVersionError if *headers* ask for an unknown version. Names in *headers* are in lower case."""
    version = headers.get(VERSION_HEADER, API_VERSION)
    if version not in API_VERSIONS:
        raise UnknownVersionError(f"{VERSION_HEADER} must be {' or '.join(API_VERSIONS)}, or be left out")


def answer_headers(request_id: str) -> dict[str, str]:
    """Return the headers of the answer to a request.

    >>> answer_headers("r-1")
    {'tagcast-version': '2026-11-25', 'tagcast-request-id': 'r-1'}
    """
    return {VERSION_HEADER: API_VERSION, REQUEST_ID_HEADER: request_id}


_NO_BODY_NEEDED = b"{}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a successful request: its status, JSON value and headers. If *value* is None, it has no content."""

    status: int
    value: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path: its function, the model of its body, and its description for the API document.

    *name* and *group* are the operation's id and tag; clients name their methods by the ids. *answers* maps a status to
    the type of its JSON value. If *body* is None, the route ignores the request's body. *query* and *headers* name the
    parameters that the route reads; *required* names the mandatory query parameters. If the path has no topic, the
    caller needs rights for all topics, unless *names_no_topic* is set. The default *scope* is read for GET, and manage
    for other methods. The default *summary* is the first line of the function's docstring.
    """

    name: str
    group: str
    method: str
    path: str
    serve: Callable[[World, Request[Any]], Answer]
    answers: Mapping[int, Any]
    body: type[Body] | None = None
    query: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    is_public: bool = False
    scope: TokenScope | None = None
    names_no_topic: bool = False
    required: tuple[str, ...] = ()
    summary: str = ""

    @property
    def scopes(self) -> tuple[TokenScope, ...]:
        """The scopes that allow this route, of which a token needs one; empty for a public route.

        The scope manage includes read and consume.
        """
        if self.is_public:
            return ()
        scope = self.scope or (TokenScope.READ if self.method == "GET" else TokenScope.MANAGE)
        return (scope, TokenScope.MANAGE) if scope in (TokenScope.READ, TokenScope.CONSUME) else (scope,)

    def parameters_in(self, path: str) -> dict[str, str] | None:
        """Return the values of the path parameters in *path*; None if the path does not match.

        >>> route = Route("get_topic", "topics", "GET", "/topics/{topic}", lambda world, request: Answer(200), {})
        >>> route.parameters_in("/topics/orders"), route.parameters_in("/topics"), route.parameters_in("/topics/")
        ({'topic': 'orders'}, None, None)
        """
        wanted, given = self.path.split("/"), path.split("/")
        if len(wanted) != len(given):
            return None
        found: dict[str, str] = {}
        for name, text in zip(wanted, given, strict=True):
            if name.startswith("{") and text:
                found[name.strip("{}")] = text
            elif name != text:
                return None
        return found


@dataclass(frozen=True)
class Router:
    """The routes of one Lambda function. *elsewhere* has the other functions' routes.

    An answer with status 405 lists the methods of both in its header Allow.
    """

    routes: Sequence[Route]
    elsewhere: Sequence[Route] = ()

    def serve(self, event: Mapping[str, Any], world: World, logger: Logger) -> dict[str, Any]:
        """Answer one API Gateway event (payload 2.0). Log an unexpected error with its stack, and count it."""
        request_id = request_id_of(event)
        try:
            answered = self._answer(event, world)
        except Exception as error:
            if (problem := problem_of(error)) is None:
                logger.exception("unexpected error", correlation_id=request_id)
                world.telemetry.count("Failed")
                problem = Problem(ProblemCode.INTERNAL, "an internal error occurred")
            answered = _problem_response(problem, request_id)
        answered["headers"] |= answer_headers(request_id)
        return answered

    def _answer(self, event: Mapping[str, Any], world: World) -> dict[str, Any]:
        headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
        check_version(headers)
        method, path = _method_and_path(event)
        for route in self.routes:
            if route.method == method and (parameters := route.parameters_in(path)) is not None:
                rights = None if route.is_public else rights_of(event)
                if rights is not None:
                    rights.check_scope([f"{world.scope_prefix}{scope}" for scope in route.scopes])
                    if not route.names_no_topic:
                        rights.check_topic(parameters.get("topic"))
                return _answer_response(route.serve(world, _request(event, headers, route, parameters, rights)))
        known = (*self.routes, *self.elsewhere)
        raise UnknownRouteError(route.method for route in known if route.parameters_in(path) is not None)


def _method_and_path(event: Mapping[str, Any]) -> tuple[str, str]:
    """Return the method and the path of a request, without API Gateway's stage."""
    context, path = event["requestContext"], event["rawPath"]
    stage = context["stage"]
    return context["http"]["method"], path if stage == "$default" else path.removeprefix(f"/{stage}")


def _request(
    event: Mapping[str, Any],
    headers: Mapping[str, str],
    route: Route,
    parameters: Mapping[str, str],
    rights: Rights | None,
) -> Request[Any]:
    query = event.get("queryStringParameters") or {}
    names, faults = checked_names(parameters)
    faults += query_faults(query, route.query)
    content, body = b"", None
    if route.body is not None:
        content = content_of(event, headers)
        body, found = _read(route.body, content)
        faults += found
    if faults:
        raise InvalidRequestError(tuple(faults))
    return Request(names, query, headers, content, body, rights)


def _read(model: type[Body], content: bytes) -> tuple[Body | None, list[Fault]]:
    from tagcast_aws.api.http.body import read

    return read(model, parse(content or _NO_BODY_NEEDED))


def _answer_response(answer: Answer) -> dict[str, Any]:
    if answer.value is None:
        return response(answer.status, answer.headers, "")
    return response(answer.status, {**answer.headers, "Content-Type": "application/json"}, json_text(answer.value))


def _problem_response(problem: Problem, request_id: str) -> dict[str, Any]:
    text = json.dumps({**problem.as_json(), "request_id": request_id}, ensure_ascii=False)
    return response(problem.status, {**dict(problem.headers), "Content-Type": MEDIA_TYPE}, text)


def response(status: int, headers: Mapping[str, str], body: str) -> dict[str, Any]:
    """Return an answer in API Gateway's form (payload 2.0)."""
    return {"statusCode": status, "body": body, "isBase64Encoded": False, "headers": dict(headers), "cookies": []}
