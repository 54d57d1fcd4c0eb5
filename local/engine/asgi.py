"""Types and functions for ASGI, the interface between the engine's server and its applications."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


async def read_body(receive: Receive) -> bytes | None:
    """Return the whole body of a request; None if the client disconnected before the end of the body."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def headers_of(scope: Scope) -> dict[str, str]:
    """Return the headers of a request. The names are in lower case."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Send a complete response."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@dataclass
class ResponseCollector:
    """Collects the parts of one response, which an ASGI application sends as messages."""

    status: int = 500
    headers: Iterable[tuple[bytes, bytes]] = ()
    body: bytes = b""

    async def send(self, message: Message) -> None:
        """Add the part of the response that *message* has."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message["headers"]
        else:
            self.body += message.get("body", b"")


def receive_body(body: bytes, then: Receive) -> Receive:
    """Return an ASGI `receive` whose first call returns the whole *body*. Later calls await *then*."""
    told = False

    async def say() -> Message:
        nonlocal told
        if told:
            return await then()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return say


async def disconnect() -> Message:
    """Return the ASGI message that says that the client has disconnected."""
    return {"type": "http.disconnect"}
