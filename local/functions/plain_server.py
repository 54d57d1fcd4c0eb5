"""A fast HTTP server for local callers: aiohttp's server without the application layer, which is slow."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def plain_server(serve: Serve, body_bytes_max: int, **how: Any) -> web.Server:
    """Return a server that passes every request to *serve*.

    Reading a body of more than *body_bytes_max* bytes raises HTTPRequestEntityTooLarge; 0 means no limit. The server
    answers `Expect: 100-continue`, which curl sends before a body of a MiB.
    """

    async def serve_expecting(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return await serve(request)

    def request(*made: Any) -> web.BaseRequest:
        message, payload, protocol, writer, task = made
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=body_bytes_max)

    return web.Server(serve_expecting, request_factory=request, access_log=None, **how)
