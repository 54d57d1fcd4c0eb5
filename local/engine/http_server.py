"""Serves the engine's application with aiohttp's server, whose parser is compiled.

Its own server is Python throughout and takes longer over a request than the engine over most calls.
"""

import asyncio
import signal
from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol
from urllib.parse import unquote

from aiohttp import web
from multidict import CIMultiDict

from local.engine import frame_server
from local.engine.asgi import Answer, Application, Message, gone, saying
from local.engine.browser_guard import BrowserGuard
from local.functions.plain_server import plain_server

KEEP_ALIVE_S = 75.0
SHUTDOWN_S = 1.0
"""Long polls end with the stack, which ends the processes that wait for them first."""
LINE_MAX = 64 * 1024
"""Of a request's first line: S3's presigned URLs and keys are long."""


ASGI_LIMITS: Mapping[str, Any] = {
    "keepalive_timeout": KEEP_ALIVE_S,
    "max_line_size": LINE_MAX,
    "auto_decompress": False,
}
"""What aiohttp's server is told, so that it leaves a request as it is."""


class Kept(Protocol):
    """What an earlier process kept of the application."""

    def restore(self) -> None:
        """Take it over, after the application has started."""

    async def keep_short(self) -> None:
        """See to it, until it is cancelled, that the next process has little to read."""


async def serve(
    application: Application, kept: Kept, host: str, port: int, frames_port: int, known_as: str = ""
) -> None:
    """Start the application as it was *kept*, and serve it, beside HTTP in frames, until SIGTERM or SIGINT.

    *known_as* is a name by which it may be called over HTTP besides those of this machine.
    """
    life = await _started(application)
    kept.restore()
    keeping = asyncio.ensure_future(kept.keep_short())
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    runner = web.ServerRunner(asgi_server(BrowserGuard(application, port, known_as)), shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    frames = await frame_server.listen(application, host, frames_port)
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


def asgi_server(application: Application) -> web.Server:
    """A server of the application, without a bound on a body: the engine judges sizes in the words of each service."""
    return plain_server(AsgiHandler(application), 0, **ASGI_LIMITS)


class AsgiHandler:
    """Turns a request of aiohttp into one of ASGI, and the messages of its answer into a response."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        """Answer one request."""
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        answer = Answer()
        await self._application(_scope(request), saying(await request.read(), gone), answer.send)
        return _response(answer)


def _response(answer: Answer) -> web.Response:
    """What was said, whole; what HEAD leaves out is counted by the header that the engine gave."""
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in answer.headers:
        headers.add(name.decode(), value.decode(errors="replace"))
    return web.Response(status=answer.status, body=answer.body, headers=headers)


def _scope(request: web.BaseRequest) -> MutableMapping[str, Any]:
    raw_path, _, query = request.raw_path.partition("?")
    return {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "method": request.method,
        "path": unquote(raw_path),
        "raw_path": raw_path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "client": (request.remote or "127.0.0.1", 0),
    }


async def _started(application: Application) -> asyncio.Future[None]:
    """Have the application begin its life; what is answered waits for its end, which is never told."""
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
