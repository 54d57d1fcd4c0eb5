"""A fast HTTP server for local callers: aiohttp's server without its slow application layer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

LOGGER = logging.getLogger(__name__)
"""Logs faults of local servers, but no malformed requests: their records quote the line, which may be a token.

It also omits InvalidStateError. aiohttp raises it for a request that ends as the server stops waiting for it.
"""
_OMITTED = (HttpProcessingError, asyncio.InvalidStateError)
LOGGER.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], _OMITTED)))
Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Response(NamedTuple):
    """An HTTP response. *headers* may contain a name several times, for instance for cookies."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


def as_aiohttp(answer: Response) -> web.Response:
    """Convert a response to a response of aiohttp, which adds the length if it is missing."""
    response = web.Response(status=answer.status, body=answer.body)
    response.headers.popall("Content-Type", None)
    for name, value in answer.headers:
        response.headers.add(name, value)
    return response


def plain_server(serve: Serve, body_bytes_max: int, **how: Any) -> web.Server:
    """Return an HTTP server that passes each request to *serve*. *how* has further options of aiohttp's server.

    If a body has more than *body_bytes_max* bytes, reading it raises HTTPRequestEntityTooLarge; 0 means no limit. The
    server confirms `Expect: 100-continue`, which curl sends before a large body.
    """

    async def serve_expecting(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return await serve(request)

    def request(*made: Any) -> web.BaseRequest:
        message, payload, protocol, writer, task = made
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=body_bytes_max)

    return web.Server(serve_expecting, request_factory=request, access_log=None, logger=LOGGER, **how)
