"""Protects the engine's HTTP port from browsers: a web page can reach every port of this machine."""

from local.engine.asgi import Application, Receive, Scope, Send, answer, headers_of
from local.rules.browsers import why_refused


class BrowserGuard:
    """An ASGI application that refuses requests from web pages, and those for another host name."""

    def __init__(self, application: Application, port: int, host: str = "") -> None:
        self._application = application
        self._port = port
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        headers = headers_of(scope)
        refused = why_refused(headers, self._port, self._host)
        if refused or "origin" in headers:  # The engine has no pages of its own.
            text = (refused or "web pages may not call the local stack").encode()
            await answer(send, 403, [(b"content-length", str(len(text)).encode())], text)
            return
        await self._application(scope, receive, send)
