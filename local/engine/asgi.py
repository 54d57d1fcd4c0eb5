"""Starts the engine's ASGI application, and passes requests to it. Its router serves all AWS services."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

from local.engine.aws_request import Handler, Request
from local.functions.plain_server import Response

Message = MutableMapping[str, Any]
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


def handler_of(application: Application) -> Handler:
    """Return a handler. It passes a request to the application, and returns the application's whole response."""

    async def handle(request: Request) -> Response:
        unread = [{"type": "http.request", "body": request.body, "more_body": False}]
        started: Message = {"status": 500, "headers": ()}
        body = b""

        async def receive() -> Message:
            return unread.pop() if unread else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal started, body
            if message["type"] == "http.response.start":
                started = message
            else:
                body += message.get("body", b"")

        await application(_scope_of(request), receive, send)
        headers = tuple((name.decode(), value.decode(errors="replace")) for name, value in started["headers"])
        return Response(started["status"], headers, body)

    return handle


def _scope_of(request: Request) -> Message:
    return {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "method": request.method,
        "path": unquote(request.path),
        "raw_path": request.path.encode("latin-1"),
        "query_string": request.query.encode("latin-1"),
        "headers": [(name.encode(), value.encode(errors="surrogateescape")) for name, value in request.headers.items()],
        "client": (request.client, 0),
    }


async def start(application: Application) -> asyncio.Future[None]:
    """Start the application by ASGI's lifespan protocol. Return the task that runs the application's lifespan.

    The shutdown message is never sent.
    """
    begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    messages: asyncio.Queue[Message] = asyncio.Queue()
    messages.put_nowait({"type": "lifespan.startup"})

    async def send(message: Message) -> None:
        if message["type"] == "lifespan.startup.complete":
            begun.set_result(None)

    life = asyncio.ensure_future(application({"type": "lifespan"}, messages.get, send))
    await asyncio.wait((begun, life), return_when=asyncio.FIRST_COMPLETED)
    if life.done():
        life.result()
        raise RuntimeError("the engine did not start")
    return life
