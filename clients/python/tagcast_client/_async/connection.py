"""The connection. `_sync` is built from `_async` by `hatch_build.py`; change `_async`."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache, partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from urllib.parse import urlsplit

import httpx

from tagcast_client.asyncio_tasks import AsyncPageReader, AsyncSleep, get_runtime, is_abandoned
from tagcast_client.batches import parts
from tagcast_client.changing import GENERATE
from tagcast_client.errors import (
    BatchInterruptedError,
    NotFoundError,
    PreconditionFailedError,
    TagcastError,
    UnreachableError,
    refusal,
)
from tagcast_client.models import Subscription, Topic
from tagcast_client.operation import URL_VARIABLE, Answer, Operation, Page, checked_url, if_match, reads
from tagcast_client.retrying import Retries, Tries
from tagcast_client.signing import LOCAL_HOSTS, SigV4, is_aws
from tagcast_client.version import API_VERSION, __version__

T = TypeVar("T")
Resource = TypeVar("Resource", Topic, Subscription)

logger = logging.getLogger("tagcast_client")
CONFLICTS_MIN = 5
"""The client gives up after five conflicts with concurrent changes, or later when its time for retries ends."""
TIMEOUT = httpx.Timeout(35.0, connect=5.0)
ANSWER_S = 10.0
"""The shortest read timeout after the API has waited for messages. A client that gave up a pull earlier would lose its
messages for their visibility timeout."""


@cache
def _tls_context() -> ssl.SSLContext:
    """Return the TLS context with the trusted authorities. Only https URLs need it, and loading takes 20 ms."""
    return httpx.create_ssl_context()


class AsyncConnection:
    """Sends the requests of operations, and repeats requests if that is safe. The client class describes the rules."""

    def __init__(
        self,
        url: str | None = None,
        *,
        auth: httpx.Auth | None = None,
        retries: Retries | None = None,
        timeout: httpx.Timeout | float = TIMEOUT,
        transport: httpx.AsyncBaseTransport | None = None,
        user_agent: str = f"tagcast-client/{__version__}",
        sleep: AsyncSleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = checked_url(url or os.environ.get(URL_VARIABLE, ""))
        self.auth = auth or (SigV4() if is_aws(self.url) else None)
        self._retries = retries or Retries()
        self._sleep = sleep
        self._clock = clock
        self._is_known = False
        self._runtime: object = None
        self._new_http = partial(
            httpx.AsyncClient,
            auth=self.auth,
            timeout=timeout,
            transport=transport,
            headers={"accept": "application/json", "user-agent": user_agent, "tagcast-version": API_VERSION},
            follow_redirects=False,
            trust_env=urlsplit(self.url).hostname not in LOCAL_HOSTS,
            verify=_tls_context() if self.url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )
        try:
            self._http = self._new_http()
        except (ImportError, ValueError, httpx.InvalidURL) as fault:  # A SOCKS proxy needs another package.
            reason = f"the proxy settings of the environment (ALL_PROXY, NO_PROXY, …) do not work: {fault}"
            raise UnreachableError(self.url, reason, refused=True) from fault

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._renew_http().aclose()

    def _renew_http(self) -> httpx.AsyncClient:
        """Return connections of this process and event loop: those of another one would mix up answers, or fail."""
        runtime = get_runtime()
        if self._runtime not in (None, runtime) and not self._http.is_closed:
            self._http = self._new_http()
        self._runtime = runtime
        return self._http

    async def _send(self, operation: Operation[T]) -> T:
        tries = Tries(self._retries, self._clock())
        while True:
            outcome = await self._try(operation)
            wait_s = tries.wait_s(operation, outcome, self._clock(), is_known=self._is_known)
            if wait_s is None:
                break
            logger.warning(
                "%s %s: %s; try %d follows in %.1f s",
                operation.method,
                operation.path,
                outcome if isinstance(outcome, UnreachableError) else f"HTTP {outcome.status}",
                tries.made + 1,
                wait_s,
            )
            await self._sleep(wait_s)
            if is_abandoned():
                break
        if isinstance(outcome, UnreachableError):
            raise outcome
        if outcome.status == 404 and operation.gone_is_done and tries.may_be_done:
            return operation.read(Answer(204, ""))
        if outcome.status >= 300:
            raise refusal(outcome.status, outcome.text, creates=operation.creates)
        return operation.read(outcome)

    async def _send_parts(
        self,
        operation_of: Callable[[Sequence[Mapping[str, Any]], int], Operation[tuple[T, ...]]],
        items: Sequence[Mapping[str, Any]],
    ) -> tuple[T, ...]:
        """Run one operation for each part of a batch. *operation_of* gets the part and the place of its first item.

        Raises BatchInterruptedError when a part fails after an earlier part succeeded.
        """
        results: tuple[T, ...] = ()
        for place, part in parts(items):
            try:
                results += await self._send(operation_of(part, place))
            except TagcastError as fault:
                if results:
                    raise BatchInterruptedError(results, len(results)) from fault
                raise
        return results

    async def _try(self, operation: Operation[T]) -> Answer | UnreachableError:
        http, headers = self._renew_http(), dict(operation.headers)
        content = operation.content
        if content is not None:
            headers["content-type"] = "application/json"
        try:
            request = http.build_request(
                operation.method, self.url + operation.target, headers=headers, content=content
            )
            timeout = request.extensions["timeout"]
            if operation.wait_s and timeout["read"] is not None:
                timeout["read"] = max(timeout["read"], operation.wait_s + ANSWER_S)
            got = await http.send(request)
        except httpx.RequestError as fault:  # Or the answer cannot be decoded, e.g. from a broken proxy.
            refused = isinstance(fault, httpx.ConnectError | httpx.ConnectTimeout)
            return UnreachableError(self.url, str(fault) or type(fault).__name__, refused=refused)
        self._is_known = True
        return Answer(got.status_code, got.text, {name.lower(): value for name, value in got.headers.items()})

    async def _ensure(
        self,
        path: str,
        kind: type[Resource],
        patch_of: Callable[[Resource], Mapping[str, Any]],
        wanted: Mapping[str, Any] | None = None,
    ) -> Resource:
        """Patch the resource at *path*, or create it as *wanted* if it is missing. Repeat after concurrent changes.

        Both requests are conditional, so a lost answer does no harm: the next read shows the outcome. Only a request
        that generates a secret is not repeated, because no read shows the secret.
        """
        began_s, conflicts = self._clock(), 0
        while True:
            try:
                present = await self._send(Operation("GET", path, reads(kind)))
                patch = patch_of(present)
                if not patch:
                    return present
                change = Operation(
                    "PATCH", path, reads(kind), patch, headers=if_match(present.version), repeatable=_is_readable(patch)
                )
            except NotFoundError:
                if wanted is None:
                    raise
                headers = {"If-None-Match": "*"}
                change = Operation("PUT", path, reads(kind), wanted, headers=headers, repeatable=_is_readable(wanted))
            try:
                return await self._send(change)
            except PreconditionFailedError:
                conflicts += 1
                wait_s = random.uniform(0.0, self._retries.window_s(conflicts))
                if conflicts >= CONFLICTS_MIN and self._clock() + wait_s > began_s + self._retries.seconds:
                    raise
            await self._sleep(wait_s)  # Without a wait, most of many programs that start together would lose.

    def _list(self, page_at: Callable[[str | None], Operation[Page[T]]]) -> AsyncPages[T]:
        return AsyncPages(lambda cursor: self._send(page_at(cursor)))


class AsyncPages(Generic[T]):
    """A list of the API. Iterate over all its items, or read single pages with `page`."""

    def __init__(self, read: AsyncPageReader[T]) -> None:
        self._read = read

    async def __aiter__(self) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            page = await self.page(cursor)
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    async def page(self, cursor: str | None = None) -> Page[T]:
        """Return the first page, or the page at *cursor*, which is the ``next_cursor`` of the previous page."""
        return await self._read(cursor)


def _is_readable(settings: Mapping[str, Any]) -> bool:
    """Return whether a read shows the outcome of these settings: no read shows a generated secret."""
    return settings.get("secret") != GENERATE
