"""ASGI types and helpers for the engine's applications."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, cast

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


async def read_body(receive: Receive) -> bytes | None:
    """Return the body of a request, or None if the client disconnected early."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def headers_of(scope: Scope) -> dict[str, str]:
    """Return the headers of a request by lower-case name."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Send a complete response."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class ResponseCollector:
    """Collects the messages of a response."""

    def __init__(self) -> None:
        self._start: Message = {"status": 500, "headers": ()}
        self._parts: list[bytes] = []

    async def send(self, message: Message) -> None:
        """Add an ASGI message."""
        if message["type"] == "http.response.start":
            self._start = message
        elif part := message.get("body", b""):
            self._parts.append(part)

    @property
    def status(self) -> int:
        """The status of the response."""
        return int(self._start["status"])

    @property
    def headers(self) -> Iterable[tuple[bytes, bytes]]:
        """The headers of the response."""
        return cast("Iterable[tuple[bytes, bytes]]", self._start["headers"])

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self._parts)


def receive_body(body: bytes, then: Receive) -> Receive:
    """Return a `receive` that returns a whole body once, and then calls *then*."""
    told = False

    async def say() -> Message:
        nonlocal told
        if told:
            return await then()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return say


async def disconnect() -> Message:
    """Return a `receive` message that signals a disconnect."""
    return {"type": "http.disconnect"}
