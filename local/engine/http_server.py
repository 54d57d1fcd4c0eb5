"""Serves the engine's application over HTTP and over frames.

The HTTP server is aiohttp's, whose parser is compiled. The engine's own server is pure Python; it takes longer for a
request than most calls do.
"""

import asyncio
import signal
from functools import partial
from urllib.parse import unquote

from aiohttp import web
from multidict import CIMultiDict

from local.engine.asgi import (
    Application,
    Message,
    Receive,
    ResponseCollector,
    Scope,
    Send,
    answer,
    disconnect,
    headers_of,
    receive_body,
)
from local.engine.persistent_state import PersistentState
from local.functions.frames import LENGTHS, FrameError, lengths_of, pack_frame
from local.functions.plain_server import plain_server
from local.rules.browsers import why_refused

JSON = b"application/x-amz-json-1.0"


async def listen_to_frames(application: Application, host: str, port: int) -> asyncio.Server:
    """Start a server for calls in frames. It disconnects clients that use another protocol."""
    return await asyncio.get_running_loop().create_server(lambda: FrameProtocol(application), host, port)


class FrameProtocol(asyncio.Protocol):
    """One connection of a client that sends calls in frames. The calls are executed one after another."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._unread = bytearray()
        self._transport: asyncio.Transport | None = None
        self._serving: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the new connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, fault: Exception | None) -> None:
        """Cancel the running call, e.g. a long poll, when its client disconnects."""
        if self._serving is not None:
            self._serving.cancel()

    def data_received(self, data: bytes) -> None:
        """Store the data. If no call is running and the next call is complete, start it."""
        self._unread += data
        if self._serving is None:
            self._serve_next()

    def _serve_next(self) -> None:
        assert self._transport is not None
        self._serving = None
        if len(self._unread) < LENGTHS.size:
            return
        try:
            head_length, body_length = lengths_of(self._unread)
        except FrameError:
            self._transport.abort()
            return
        body_at = LENGTHS.size + head_length
        ends_at = body_at + body_length
        if len(self._unread) < ends_at:
            return
        head, body = bytes(self._unread[LENGTHS.size : body_at]), bytes(self._unread[body_at:ends_at])
        del self._unread[:ends_at]
        self._serving = asyncio.get_running_loop().create_task(self._serve(self._transport, head, body))
        self._serving.add_done_callback(self._served)

    async def _serve(self, transport: asyncio.Transport, head: bytes, body: bytes) -> None:
        answer = ResponseCollector()
        await self._application(scope_of(head), receive_body(body, disconnect), answer.send)
        transport.write(pack_frame(b"%d" % answer.status, answer.body))
        self._serve_next()

    def _served(self, serving: asyncio.Task[None]) -> None:
        """Disconnect a client whose call failed in the engine; the loop's handler logs the error."""
        if not serving.cancelled() and (fault := serving.exception()) is not None:
            assert self._transport is not None
            self._transport.abort()
            serving.get_loop().call_exception_handler({"message": "a call in a frame failed", "exception": fault})


def scope_of(head: bytes) -> Scope:
    """Return the ASGI scope of a call in a frame. *head* has two lines: the headers `authorization` and `x-amz-target`.

    >>> scope_of(b"AWS4-HMAC-SHA256 ...\\nAmazonSQS.SendMessage")["headers"][1]
    (b'x-amz-target', b'AmazonSQS.SendMessage')
    """
    authorization, _, target = head.partition(b"\n")
    headers = [(b"authorization", authorization), (b"x-amz-target", target), (b"content-type", JSON)]
    return _scope("POST", "/", headers)


def _scope(method: str, raw_path: str, headers: list[tuple[bytes, bytes]], client: str = "127.0.0.1") -> Scope:
    path, _, query = raw_path.partition("?")
    return {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "headers": headers,
        "client": (client, 0),
    }


KEEP_ALIVE_S = 75.0
SHUTDOWN_S = 1.0
"""The time that open requests get at the end. The stack first ends the processes that wait in long polls."""
LINE_MAX = 64 * 1024
"""The maximum bytes of a request's first line. It is large, because S3's presigned URLs and keys are long."""


async def serve(
    application: Application, kept: PersistentState, host: str, port: int, frames_port: int, known_as: str = ""
) -> None:
    """Start the application, restore the engine's state *kept*, and serve requests until SIGTERM or SIGINT.

    *port* accepts HTTP, and *frames_port* accepts the frames of :mod:`local.functions.frames`. *known_as* is a host
    name that requests may use, in addition to localhost.
    """
    life = await _started(application)
    kept.restore()
    keeping = asyncio.ensure_future(kept.keep_short())
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    runner = web.ServerRunner(asgi_server(guard_browsers(application, port, known_as)), shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    frames = await listen_to_frames(application, host, frames_port)
    try:
        await web.TCPSite(runner, host, port).start()
        await asyncio.wait((asyncio.ensure_future(ended.wait()), keeping), return_when=asyncio.FIRST_COMPLETED)
        if keeping.done():
            keeping.result()
    finally:
        frames.close()
        await runner.cleanup()
        keeping.cancel()
        life.cancel()


def guard_browsers(application: Application, port: int, host: str = "") -> Application:
    """Wrap the application to refuse requests from web pages. It accepts only the host names localhost and *host*."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        refused = why_refused(headers, port, host)
        if refused or "origin" in headers:  # The engine has no pages of its own.
            text = (refused or "web pages may not call the local stack").encode()
            await answer(send, 403, [(b"content-length", str(len(text)).encode())], text)
            return
        await application(scope, receive, send)

    return guarded


def asgi_server(application: Application) -> web.Server:
    """Return an HTTP server of the application. It accepts any size of body; the engine itself refuses large ones."""
    unchanged = {"keepalive_timeout": KEEP_ALIVE_S, "max_line_size": LINE_MAX, "auto_decompress": False}
    return plain_server(partial(_answer, application), 0, **unchanged)


async def _answer(application: Application, request: web.BaseRequest) -> web.Response:
    """Answer a request with the application's whole response. The response to HEAD keeps its content-length header."""
    answer = ResponseCollector()
    given = [(name.lower(), value) for name, value in request.raw_headers]
    scope = _scope(request.method, request.raw_path, given, request.remote or "127.0.0.1")
    await application(scope, receive_body(await request.read(), disconnect), answer.send)
    headers = CIMultiDict((name.decode(), value.decode(errors="replace")) for name, value in answer.headers)
    return web.Response(status=answer.status, body=answer.body, headers=headers)


async def _started(application: Application) -> asyncio.Future[None]:
    """Start the application by ASGI's lifespan protocol; return its task. The shutdown message is never sent."""
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
