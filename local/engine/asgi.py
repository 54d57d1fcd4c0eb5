"""ASGI types and helpers for the engine's applications."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

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


@dataclass
class ResponseCollector:
    """Collects the ASGI messages of one response."""

    status: int = 500
    headers: Iterable[tuple[bytes, bytes]] = ()
    body: bytes = b""

    async def send(self, message: Message) -> None:
        """Add an ASGI message of the response."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message["headers"]
        else:
            self.body += message.get("body", b"")


def receive_body(body: bytes, then: Receive) -> Receive:
    """Return an ASGI `receive`. Its first call returns the whole *body*; later calls await *then*."""
    told = False

    async def say() -> Message:
        nonlocal told
        if told:
            return await then()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return say


async def disconnect() -> Message:
    """Return the ASGI message for a disconnected client."""
    return {"type": "http.disconnect"}
