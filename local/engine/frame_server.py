"""Serves the engine's application over frames, for the workers' SDK and the stack's event sources."""

import asyncio

from local.engine.asgi import Application, ResponseCollector, Scope, disconnect, receive_body
from local.functions.frames import LENGTHS, FrameError, lengths_of, pack_frame

JSON = b"application/x-amz-json-1.0"


async def listen(application: Application, host: str, port: int) -> asyncio.Server:
    """Start serving. Clients with another protocol are disconnected."""
    return await asyncio.get_running_loop().create_server(lambda: FrameProtocol(application), host, port)


class FrameProtocol(asyncio.Protocol):
    """One connection, whose calls are answered in order."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._unread = bytearray()
        self._transport: asyncio.Transport | None = None
        self._serving: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, fault: Exception | None) -> None:
        """Cancel the running call, e.g. a long poll, when its client disconnects."""
        if self._serving is not None:
            self._serving.cancel()

    def data_received(self, data: bytes) -> None:
        """Serve complete calls."""
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
    """Return the ASGI scope of a call.

    >>> scope_of(b"AWS4-HMAC-SHA256 ...\\nAmazonSQS.SendMessage")["headers"][1]
    (b'x-amz-target', b'AmazonSQS.SendMessage')
    """
    authorization, _, target = head.partition(b"\n")
    return {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "method": "POST",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [(b"authorization", authorization), (b"x-amz-target", target), (b"content-type", JSON)],
        "client": ("127.0.0.1", 0),
    }
