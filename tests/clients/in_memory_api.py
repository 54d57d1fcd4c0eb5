"""The shipped handlers behind an HTTP transport: a client's requests reach the core over a world in memory."""

import base64
from collections.abc import Callable

import httpx

from tests.fakes.handlers import answered
from tests.fakes.world import FakeWorld

Accident = Callable[[httpx.Request], httpx.Response | Exception | None]
"""What happens to one answer: None for nothing, another answer, or an exception (the answer is lost)."""


class InMemoryApi(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Serves synchronous and asynchronous clients; *accidents* befall the first answers, one each."""

    def __init__(self) -> None:
        self.fakes = FakeWorld()
        self.accidents: list[Accident] = []
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        accident = self.accidents.pop(0) if self.accidents else lambda request: None
        # What is lost or replaced is the answer: the request arrived, unless it was refused.
        befallen = accident(request)
        if isinstance(befallen, httpx.ConnectError):
            raise befallen
        if isinstance(befallen, httpx.Response) and befallen.status_code == 429:
            return befallen
        answer = self._answer(request)
        if isinstance(befallen, Exception):
            raise befallen
        return befallen or answer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        return self.handle_request(request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body = base64.b64encode(request.content).decode() if request.content else None
        target = request.url.raw_path.decode()
        answer = answered(self.fakes.world, request.method, target, body, dict(request.headers), is_base64=True)
        return httpx.Response(answer["statusCode"], headers=answer["headers"], content=answer.get("body") or "")


def lost(request: httpx.Request) -> Exception:
    return httpx.ReadTimeout("no answer", request=request)


def undecodable(request: httpx.Request) -> httpx.Response:
    """An answer that a broken proxy says is compressed."""
    return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"no gzip"))


def refused(request: httpx.Request) -> Exception:
    return httpx.ConnectError("refused", request=request)


def status(code: int, **headers: str) -> Accident:
    return lambda request: httpx.Response(
        code, headers={name.replace("_", "-"): value for name, value in headers.items()}, json={"message": "busy"}
    )
