"""The route table of a function, served by powertools' resolver: read, one use case, translate."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError as NoRouteError
from aws_lambda_powertools.utilities.typing import LambdaContext
from tagcast.errors import Fault, InvalidRequestError
from tagcast.ports import World

from tagcast_aws.api.http.problems import MEDIA_TYPE, Problem, UnknownRouteError, headers_of, internal, problem_of
from tagcast_aws.api.http.requests import Request, checked_names, content_of
from tagcast_aws.api.http.strict_json import parse

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

    from tagcast_aws.api.http.body import Body

_NO_BODY_NEEDED = b"{}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A success: a status, a JSON value (None: no content), headers."""

    status: int
    value: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path: what serves it, the model of its body, and what the API document says of it.

    *answers* maps a status to the type of its JSON value; *query* and *headers* name the parameters it reads.
    """

    method: str
    path: str
    serve: Callable[[World, Request[Any]], Answer]
    summary: str
    answers: Mapping[int, Any]
    body: type[Body] | None = None
    query: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    is_public: bool = False

    def matches(self, path: str) -> bool:
        """Say whether *path* is one of this route's, whatever the method."""
        return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", self.path), path) is not None


def application(routes: Sequence[Route], elsewhere: Sequence[Route] = ()) -> APIGatewayHttpResolver:
    """Return a resolver for *routes*; *elsewhere* are other functions' routes, known for 405's Allow only."""
    app = APIGatewayHttpResolver(enable_validation=False)
    for route in routes:
        rule = re.sub(r"\{(\w+)\}", r"<\1>", route.path)
        app.route(rule, method=route.method)(_adapter(app, route))

    def no_route(_: NoRouteError) -> Response[str]:
        path = app.current_event.path
        return _refusal(problem_of(UnknownRouteError(r.method for r in (*routes, *elsewhere) if r.matches(path))))

    app.not_found(no_route)
    return app


def serve(app: APIGatewayHttpResolver, event: Mapping[str, Any], world: World, logger: Logger) -> dict[str, Any]:
    """Answer one API Gateway event (payload 2.0).

    What nobody foresaw is logged with its stack, but without the event.
    """
    app.append_context(world=world)  # type: ignore[no-untyped-call]
    try:
        return app.resolve(event, LambdaContext())
    except Exception:
        correlation_id = str(event.get("requestContext", {}).get("requestId", "unknown"))
        logger.exception("unexpected error", correlation_id=correlation_id)
        problem = internal(correlation_id)
        return {
            "statusCode": problem.status,
            "headers": {"Content-Type": MEDIA_TYPE},
            "body": json.dumps(problem.as_json()),
            "isBase64Encoded": False,
            "cookies": [],
        }


def _adapter(app: APIGatewayHttpResolver, route: Route) -> Callable[..., Response[str]]:
    def adapted(**path: str) -> Response[str]:
        try:
            answer = route.serve(app.context["world"], _request(app, route, path))
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            return _refusal(problem)
        if answer.value is None:
            return Response(answer.status, body="", headers=dict(answer.headers))
        text = _text(answer.value)
        return Response(answer.status, "application/json", text, headers=dict(answer.headers))

    return adapted


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def encoded_size(value: Any) -> int:
    r"""Return how many bytes *value* takes in the answer of a function at most: its JSON text is a string there.

    >>> encoded_size({"body": "\x01"}) == len(r'{\"body\":\"\\u0001\"}')
    True
    """
    return len(json.dumps(_text(value))) - 2


def _request(app: APIGatewayHttpResolver, route: Route, path: Mapping[str, str]) -> Request[Any]:
    event = app.current_event
    headers = {name.lower(): value for name, value in event.headers.items()}
    names, faults = checked_names(path)
    content, body = b"", None
    if route.body is not None:
        content = content_of(event.raw_event, headers)
        body, found = _read(route.body, content)
        faults += found
    if faults:
        raise InvalidRequestError(tuple(faults))
    return Request(names, event.query_string_parameters or {}, headers, content, body)


def _read(model: type[Body], content: bytes) -> tuple[Body | None, list[Fault]]:
    from tagcast_aws.api.http.body import read

    return read(model, parse(content or _NO_BODY_NEEDED))


def _refusal(problem: Problem | None) -> Response[str]:
    assert problem is not None
    text = json.dumps(problem.as_json(), ensure_ascii=False)
    return Response(problem.status, MEDIA_TYPE, text, headers=dict(headers_of(problem)))
