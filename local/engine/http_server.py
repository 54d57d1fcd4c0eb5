"""Serves the engine over HTTP and over frames.

The HTTP server is aiohttp's, whose parser is compiled. The engine's own server is pure Python; it takes longer for a
request than most calls do.
"""

import asyncio
import signal
from functools import partial

from aiohttp import web

from local.engine.asgi import Application, start
from local.engine.aws_request import Handler, Request
from local.engine.persistent_state import PersistentState
from local.functions.frames import LENGTHS, FrameError, lengths_of, pack_frame
from local.functions.plain_server import Response, as_aiohttp, plain_server
from local.rules.browsers import why_refused

JSON = "application/x-amz-json-1.0"


async def listen_to_frames(handler: Handler, host: str, port: int) -> asyncio.Server:
    """Start a server for calls in frames. It disconnects clients that use another protocol."""
    return await asyncio.get_running_loop().create_server(lambda: FrameProtocol(handler), host, port)


class FrameProtocol(asyncio.Protocol):
    """One connection of a client that sends calls in frames. The calls are executed one after another."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
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
        self._serving.add_done_callback(self._disconnect_if_failed)

    async def _serve(self, transport: asyncio.Transport, head: bytes, body: bytes) -> None:
        answer = await self._handler(request_of(head, body))
        transport.write(pack_frame(b"%d" % answer.status, answer.body))
        self._serve_next()

    def _disconnect_if_failed(self, serving: asyncio.Task[None]) -> None:
        """Disconnect a client whose call failed in the engine; the loop's handler logs the error."""
        if not serving.cancelled() and (fault := serving.exception()) is not None:
            assert self._transport is not None
            self._transport.abort()
            serving.get_loop().call_exception_handler({"message": "a call in a frame failed", "exception": fault})


def request_of(head: bytes, body: bytes) -> Request:
    """Return the call in a frame. *head* has two lines: the headers `authorization` and `x-amz-target`.

    >>> request_of(b"AWS4-HMAC-SHA256 ...\\nAmazonSQS.SendMessage", b"{}").operation
    ('AmazonSQS', 'SendMessage')
    """
    authorization, _, target = head.decode("latin-1").partition("\n")
    return Request(
        "POST", "/", "", {"authorization": authorization, "x-amz-target": target, "content-type": JSON}, body
    )


KEEP_ALIVE_S = 75.0
SHUTDOWN_S = 1.0
"""The time that open requests get at the end. The stack first ends the processes that wait in long polls."""
LINE_MAX = 64 * 1024
"""The maximum bytes of a request's first line. It is large, because S3's presigned URLs and keys are long."""


async def serve(
    engine: Application,
    handler: Handler,
    kept: PersistentState,
    host: str,
    port: int,
    frames_port: int,
    known_as: str = "",
) -> None:
    """Start the engine, restore its state *kept*, and let *handler* answer requests until SIGTERM or SIGINT.

    *port* accepts HTTP, and *frames_port* accepts the frames of :mod:`local.functions.frames`. *known_as* is a host
    name that requests may use, in addition to localhost.
    """
    life = await start(engine)
    kept.restore()
    keeping = asyncio.ensure_future(kept.keep_short())
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    runner = web.ServerRunner(http_server(guard_browsers(handler, port, known_as)), shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    frames = await listen_to_frames(handler, host, frames_port)
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


def guard_browsers(handler: Handler, port: int, host: str = "") -> Handler:
    """Wrap *handler*. The wrapper refuses requests from web pages, and all host names but localhost and *host*."""

    async def handle(request: Request) -> Response:
        refused = why_refused(request.headers, port, host)
        if refused or "origin" in request.headers:  # The engine has no pages of its own.
            return Response(403, body=(refused or "web pages may not call the local stack").encode())
        return await handler(request)

    return handle


def http_server(handler: Handler) -> web.Server:
    """Return an HTTP server for *handler*. The server accepts bodies of any size, but the engine refuses large ones."""
    unchanged = {"keepalive_timeout": KEEP_ALIVE_S, "max_line_size": LINE_MAX, "auto_decompress": False}
    return plain_server(partial(_answer, handler), 0, **unchanged)


async def _answer(handler: Handler, request: web.BaseRequest) -> web.Response:
    """Answer a request. The response to HEAD keeps its content-length header."""
    path, _, query = request.raw_path.partition("?")
    headers = {name.lower(): value for name, value in request.headers.items()}
    call = Request(request.method, path, query, headers, await request.read(), request.remote or "127.0.0.1")
    return as_aiohttp(await handler(call))
