"""Passes frequent calls directly to the engine's services, because the engine's router is slow.

The router checks hosts, paths, presigned queries, browsers and hundreds of services. Calls for tables, streams, queues
and Firehose name their service in `x-amz-target`, so they need no router.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import count
from typing import Any

from local.engine.aws_request import Handler, Request
from local.functions.plain_server import Response

Service = Callable[[str, str, Any, bytes, dict[str, Any]], Awaitable[tuple[int, dict[str, str], Any]]]
"""A service of the engine: takes method, path, headers, body and query; returns status, headers and body."""


@dataclass
class DirectCalls:
    """A handler in front of the engine's router. The keys of *services* are prefixes of `x-amz-target`.

    *enter* gets the headers of a request, and sets the account and the region in the engine.
    """

    router: Handler
    services: Mapping[str, Service]
    enter: Callable[[Mapping[str, str]], None]
    _numbers: Iterator[int] = field(default_factory=partial(count, 1))

    async def __call__(self, request: Request) -> Response:
        """Pass the call to its service, or to the engine's router if `services` does not have the service."""
        service = self.services.get(request.operation[0])
        if service is None or "content-encoding" in request.headers:
            return await self.router(request)
        self.enter(request.headers)
        status, answered, content = await service(request.method, request.path, request.headers, request.body, {})
        shown = {**answered, "x-amzn-requestid": f"{next(self._numbers):032x}"}
        headers = tuple((name, str(value)) for name, value in shown.items() if name.lower() != "content-length")
        return Response(status, headers, content if isinstance(content, bytes) else content.encode())


CALLERS_KNOWN = 256
"""The maximum number of cached callers. Most requests come from few callers."""


def enter(headers: Mapping[str, str]) -> None:
    """Let the engine use the account and the region of the current request, which has the headers *headers*."""
    from ministack.core import responses

    access_key, region = _signed_by(headers.get("authorization", ""))
    responses.set_request_account_id(access_key)
    responses.set_request_region(region)


@lru_cache(CALLERS_KNOWN)
def _signed_by(authorization: str) -> tuple[str, str]:
    from ministack.core import router

    headers = {"authorization": authorization}
    return router.extract_access_key_id(headers), router.extract_region(headers)
