"""boto3 clients for pushing: one per service, region and timeout, called in the threads of the pushes."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    HTTPClientError,
    ReadTimeoutError,
)
from botocore.exceptions import ConnectionError as NoConnectionError
from tagcast.model import Outcome, Subscription
from tagcast.pushing.push_slots import SLOTS

from tagcast_aws.endpoints.adapter import AdapterEnvironment, ClientFactory, timeout_outcome
from tagcast_aws.endpoints.time_limit import TimeLimit

CONNECT_S_MAX = 5
CLIENTS_MAX = 128
"""The maximum of cached clients of other regions, named by subscribers. Each takes 170 KB, and 20 ms to create."""

T = TypeVar("T")
_Key = tuple[str | None, int]
"""The region and the timeout of a client."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """Cached clients. The thread that holds *creating* may create a client."""

    clients: dict[_Key, Any] = field(default_factory=dict)
    creating: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class _Running:
    """A counted call. Its thread may continue after the push is over."""

    has_started: bool = False
    has_ended: bool = False
    is_late: bool = False
    """Whether its push is over."""


class Caller:
    """Calls one AWS service within the timeout of a push, without botocore's own retries.

    If a connection is closed before the answer, the call is made once more, over a new connection, as the HTTP pusher
    does. Otherwise the first push after a pause might fail, and a failed call of a filter function would even discard a
    message. A call is not repeated after its push timed out. Its thread may continue only minutes later, when Lambda
    resumes the frozen process.

    Clients of the deployment's own region are cached apart, so that invented regions cannot delay or displace them.
    """

    def __init__(self, service: str, surroundings: AdapterEnvironment) -> None:
        self._service = service
        self._make_client = surroundings.make_client
        self._own_region = surroundings.region
        self._own, self._elsewhere = _Kept(), _Kept()
        self._threads = surroundings.threads
        self._connections = surroundings.aws_connections
        self._connections.closers.append(self._close_idle)
        self._running, self._open_at_most = Counter[_Key](), Counter[_Key]()
        self._counting = threading.Lock()

    async def attempt(self, subscription: Subscription, region: str | None, call: Callable[[Any], Outcome]) -> Outcome:
        """Return the outcome of *call* with a client of *region*. A fault of AWS or the network is a failed outcome."""
        try:
            return await self.call(region, subscription.settings.timeout_s, call)
        except (TimeoutError, ReadTimeoutError, ConnectTimeoutError):
            return timeout_outcome(subscription)
        except ClientError as error:
            return Outcome(False, f"{self._service}: {error.response['Error'].get('Code', 'unknown')}")
        except BotoCoreError as error:
            lost = isinstance(error, HTTPClientError | NoConnectionError)
            return Outcome(False, f"{self._service}: {type(error).__name__}", unreached=lost, unsent=not lost)

    async def call(self, region: str | None, timeout_s: int, call: Callable[[Any], T]) -> T:
        """Return the result of *call* with a client of *region*, or raise its error. None is the deployment's region.

        If the connection is closed before the answer, *call* runs once more. Raises TimeoutError after *timeout_s*.
        """
        loop = asyncio.get_running_loop()
        client = await loop.run_in_executor(self._threads, self._client, region, timeout_s)

        key = (region, timeout_s)
        running = self._begin(key)

        def run_call() -> T:
            running.has_started = True
            try:
                return call(client)
            except ConnectionClosedError:
                if running.is_late:
                    raise
                # AWS may have closed the client's idle connections while the process was frozen.
                return call(self._client(region, timeout_s, instead_of=client))
            finally:
                self._end(key, running)

        try:
            async with TimeLimit(timeout_s):
                return await loop.run_in_executor(self._threads, run_call)
        finally:
            running.is_late = True
            if not running.has_started:  # It was cancelled before a thread was free.
                self._end(key, running)

    def _begin(self, key: _Key) -> _Running:
        with self._counting:
            self._running[key] += 1
            has_grown = self._running[key] > self._open_at_most[key]
            self._open_at_most[key] += has_grown
        if has_grown:
            self._connections.grow()
        return _Running()

    def _end(self, key: _Key, running: _Running) -> None:
        with self._counting:
            self._running[key] -= not running.has_ended
            running.has_ended = True

    def _close_idle(self) -> int:
        """Close the connections of clients without a running call; return an upper bound of their number."""
        closed = 0
        with self._counting:
            for key in [each for each in self._open_at_most if not self._running[each]]:
                if (client := self._clients_of(key[0]).clients.get(key)) is not None:
                    client.close()
                closed += self._open_at_most.pop(key)
        return closed

    def _clients_of(self, region: str | None) -> _Kept:
        return self._own if region in (None, self._own_region) else self._elsewhere

    def _client(self, region: str | None, timeout_s: int, instead_of: Any = None) -> Any:
        """Return the cached client of *region*, or a new one if there is none or it is *instead_of*.

        Raises TimeoutError if clients of other pushes are being created for *timeout_s* seconds.
        """
        kept, key = self._clients_of(region), (region, timeout_s)
        known = kept.clients.get(key)
        if known is not None and known is not instead_of:
            return known
        if not kept.creating.acquire(timeout=timeout_s):
            raise TimeoutError
        try:
            known = kept.clients.get(key)
            if known is None or known is instead_of:
                if len(kept.clients) >= CLIENTS_MAX:
                    kept.clients.clear()
                kept.clients[key] = known = self._make(region, timeout_s)
            return known
        finally:
            kept.creating.release()

    def _make(self, region: str | None, timeout_s: int) -> Any:
        # The client's timeout frees the thread after the push has timed out.
        return self._factory()(
            self._service,
            region_name=region,
            config=Config(
                connect_timeout=min(timeout_s, CONNECT_S_MAX),
                read_timeout=timeout_s,
                retries={"total_max_attempts": 1},
                max_pool_connections=SLOTS,
            ),
        )

    def _factory(self) -> ClientFactory:
        if self._make_client is None:
            import boto3

            self._make_client = boto3.session.Session().client
        return self._make_client
