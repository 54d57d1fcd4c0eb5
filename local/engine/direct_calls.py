"""Passes frequent calls directly to the engine's services, because the engine's router is slow.

The router checks hosts, paths, presigned queries, browsers and hundreds of services. Calls for tables, streams, queues
and Firehose name their service in `x-amz-target`, so they need no router.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import count
from typing import Any

from local.engine.asgi import Application, Receive, Scope, Send, answer, headers_of, read_body

Service = Callable[[str, str, dict[str, str], bytes, dict[str, Any]], Awaitable[tuple[int, dict[str, str], Any]]]
"""A service of the engine: takes method, path, headers, body and query; returns status, headers and body."""


@dataclass
class DirectCalls:
    """An ASGI application in front of the engine. The keys of *services* are prefixes of `x-amz-target`.

    *enter* gets the headers of a request, and sets the account and the region in the engine.
    """

    engine: Application
    services: Mapping[str, Service]
    enter: Callable[[dict[str, str]], None]
    _numbers: Iterator[int] = field(default_factory=partial(count, 1))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call to its service, or to the engine's router if `services` does not have the service."""
        headers = headers_of(scope) if scope["type"] == "http" else {}
        service = self.services.get(headers.get("x-amz-target", "").partition(".")[0])
        if service is None or "content-encoding" in headers:
            await self.engine(scope, receive, send)
            return
        body = await read_body(receive)
        if body is None:
            return
        self.enter(headers)
        status, answered, content = await service(scope["method"], scope["path"], headers, body, {})
        content = content if isinstance(content, bytes) else content.encode()
        shown = {**answered, "x-amzn-requestid": f"{next(self._numbers):032x}", "content-length": str(len(content))}
        await answer(send, status, [(n.encode("latin-1"), str(v).encode("latin-1")) for n, v in shown.items()], content)


CALLERS_KNOWN = 256
"""The maximum number of cached callers. Most requests come from few callers."""


def enter(headers: Mapping[str, str]) -> None:
    """Set the account and the region of the present request in the engine. *headers* are those of this request."""
    from ministack.core import responses

    access_key, region = _signed_by(headers.get("authorization", ""))
    responses.set_request_account_id(access_key)
    responses.set_request_region(region)


@lru_cache(CALLERS_KNOWN)
def _signed_by(authorization: str) -> tuple[str, str]:
    from ministack.core import router

    headers = {"authorization": authorization}
    return router.extract_access_key_id(headers), router.extract_region(headers)
