"""Serves the HTTP API on this machine: does between clients and functions what API Gateway does on AWS."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web
from tagcast_aws.api.http.authorization import ForbiddenError, rights_of
from tagcast_aws.api.http.routing import API_VERSION, VERSION_HEADER

from local.front.http_event import HttpRequest, event_of, problem, response_of
from local.front.routes import Routes
from local.functions.plain_server import Response, as_aiohttp, plain_server
from local.functions.quick_json import encode
from local.functions.worker import Invocation
from local.rules.browsers import why_refused
from local.rules.limits import (
    HTTP_API_HEAD_BYTES_MAX,
    HTTP_API_PAYLOAD_BYTES_MAX,
    HTTP_API_TIMEOUT_S,
    LAMBDA_PAYLOAD_BYTES_MAX,
)

METRICS = "/metrics"
"""The path for Prometheus; deployments have no such route."""
ALL_TOPICS = "GET", "/topics"
"""Callers who may use this route may see all topics, and therefore all metrics."""
FOLDER = "/stack"
"""The path at which commands read the stack's state folder and the names of its user functions."""
EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8"

AsyncInvoke = Callable[[str, bytes], Awaitable[Invocation]]
Authorize = Callable[[str, str, str | None], Awaitable[Mapping[str, Any] | Response]]
"""Takes method, path and the header Authorization; returns the caller's part of the event, or an error."""


async def allow_all(method: str, path: str, authorization: str | None) -> Mapping[str, Any]:
    """Authorize any caller, because requests on this machine need no signature. Return an empty description."""
    return {}


class PortInUseError(OSError):
    """A port is in use. *option* of `python -m local` and *variable* of `make run` choose another port."""

    def __init__(self, port: int, option: str = "--port", variable: str = "PORT") -> None:
        super().__init__(f"port {port} of 127.0.0.1 is in use: choose another with {option}, or make run {variable}=…")


@dataclass
class Front:
    """Serves the routes of the template. `functions` maps logical ids to physical names of functions.

    `invoke` runs a function by its physical name with an event. `may_invoke` returns whether the API may invoke a
    function (by its logical id) for a method and a route's path. `authorize` checks the
    caller of a request. `metrics` returns the text for `/metrics`. `folder` is the state folder of the stack.
    `user_functions` are the names of the user's functions. `host` is a host name that requests may use, in addition to
    localhost.
    """

    routes: Routes
    functions: Mapping[str, str]
    invoke: AsyncInvoke
    may_invoke: Callable[[str, str, str], bool] = lambda method, path, function: True
    authorize: Authorize = allow_all
    metrics: Callable[[], bytes] = bytes
    host: str = ""
    folder: str = ""
    user_functions: Sequence[str] = ()
    _port: int = field(default=0, init=False)
    _runner: web.ServerRunner | None = field(default=None, init=False)

    async def listen(self, port: int) -> int:
        """Serve on 127.0.0.1 and return the port. Port 0 selects a free port. Raises PortInUseError."""
        # API Gateway passes a compressed body on as it is, and the functions refuse it.
        lines = {"max_line_size": HTTP_API_HEAD_BYTES_MAX, "max_field_size": HTTP_API_HEAD_BYTES_MAX}
        server = plain_server(self._serve, HTTP_API_PAYLOAD_BYTES_MAX, auto_decompress=False, **lines)
        self._runner = web.ServerRunner(server, shutdown_timeout=2)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", port).start()
        except OSError as fault:
            raise PortInUseError(port) from fault
        self._port = int(self._runner.addresses[0][1])
        return self._port

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def answer(self, request: HttpRequest) -> Response:
        """Find the route of a request, check its caller, and invoke the function. Return the result as a response."""
        found = self.routes.find(request.method, request.path)
        if found is None:
            return problem(404, "Not Found", f"there is nothing at {request.path}")
        route, parameters = found
        if not self.may_invoke(request.method, route.path, route.function):
            return problem(500, "Internal Server Error", "the API may not invoke the function of this route")
        caller = await self.authorize(route.method, route.path, request.header("authorization"))
        if isinstance(caller, Response):
            return caller
        described = event_of(request, route.key, parameters, parse_qsl(request.query, keep_blank_values=True))
        if caller:
            described["requestContext"]["authorizer"] = caller
        event = encode(described)
        if len(event) > LAMBDA_PAYLOAD_BYTES_MAX:
            return problem(413, "Content Too Large", f"a function accepts at most {LAMBDA_PAYLOAD_BYTES_MAX} bytes")
        running = self.invoke(self.functions[route.function], event)
        try:
            # Shielded: on AWS, too, a function continues after its client has disconnected.
            invocation = await asyncio.wait_for(asyncio.shield(running), HTTP_API_TIMEOUT_S)
        except TimeoutError:
            return problem(503, "Service Unavailable", "the function did not answer in time")
        if invocation.failed:
            return problem(500, "Internal Server Error", "the function failed; its log says why")
        return response_of(invocation.payload)

    async def _refuse_metrics(self, authorization: str | None) -> Response | None:
        """Return an error to callers who may not list all topics; else None. Without tokens, all callers may."""
        caller = await self.authorize(*ALL_TOPICS, authorization)
        if isinstance(caller, Response):
            return caller
        rights = rights_of({"headers": {"authorization": authorization}, "requestContext": {"authorizer": caller}})
        try:
            if rights is not None:
                rights.check_topic(None)
        except ForbiddenError as fault:
            return problem(403, "Forbidden", str(fault))
        return None

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        refused = why_refused({name.lower(): value for name, value in incoming.headers.items()}, self._port, self.host)
        if refused:
            return as_aiohttp(problem(403, "Forbidden", refused))
        raw_path, _, query = incoming.raw_path.partition("?")
        if (incoming.method, raw_path) == ("GET", METRICS):
            refusal = await self._refuse_metrics(incoming.headers.get("authorization"))
            return as_aiohttp(refusal or Response(200, (("content-type", EXPOSITION_TYPE),), self.metrics()))
        if (incoming.method, raw_path) == ("GET", FOLDER) and self.folder:
            stack = {"folder": self.folder, "functions": self.user_functions}
            return web.json_response(stack, headers={VERSION_HEADER: API_VERSION})
        try:
            body = await incoming.read()
        except web.HTTPRequestEntityTooLarge:
            return as_aiohttp(
                problem(413, "Content Too Large", f"a request may have at most {HTTP_API_PAYLOAD_BYTES_MAX} bytes")
            )
        except ConnectionResetError:
            # The client disconnected during its request: no response and no traceback are needed.
            return web.Response(status=HTTPStatus.BAD_REQUEST)
        headers, source_ip = tuple(incoming.headers.items()), incoming.remote or "127.0.0.1"
        return as_aiohttp(await self.answer(HttpRequest(incoming.method, raw_path, query, headers, body, source_ip)))
