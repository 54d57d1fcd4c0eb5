"""An HTTP server for local callers: aiohttp's server without the application layer, which is as slow as the parser."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def plain_server(serve: Serve, body_bytes_max: int, **how: Any) -> web.Server:
    """Return a server that passes every request to *serve*. Reading more than *body_bytes_max* (0: no bound) raises."""

    def request(*made: Any) -> web.BaseRequest:
        message, payload, protocol, writer, task = made
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=body_bytes_max)

    return web.Server(serve, request_factory=request, access_log=None, **how)
