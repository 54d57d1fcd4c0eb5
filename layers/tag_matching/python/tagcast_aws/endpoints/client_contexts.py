"""TLS contexts, one per client certificate, so that pushes with different certificates share no connection."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from hashlib import sha256
from typing import NamedTuple

from tagcast.registry.directory import ReadStart
from tagcast.sealing import OPENED_S

from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.client_certificate import present

CONTEXTS_MAX = 64
"""The maximum number of cached contexts. Each takes nearly a megabyte, and 20-40 ms of CPU time."""


class _Load(NamedTuple):
    start: ReadStart
    context: asyncio.Future[ssl.SSLContext]


class ClientContexts:
    """Creates contexts in threads and caches the recent ones. An instance belongs to one event loop.

    Contexts are created one at a time. Otherwise many certificates would take the processor from the loop of all
    pushes. A context holds a private key, so it is cached only as long as decrypted secrets (:data:`OPENED_S`).
    """

    def __init__(self, surroundings: AdapterEnvironment) -> None:
        self._surroundings = surroundings
        self._kept: OrderedDict[bytes, _Load] = OrderedDict()
        self._creating = asyncio.Semaphore(1)

    async def presenting(self, pem: str) -> ssl.SSLContext:
        """Return the context whose connections present the certificate in *pem*.

        Raises ssl.SSLError for an unusable certificate. Raises another OSError if the process has no file descriptor
        left to load the certificate.
        """
        clock, key = self._surroundings.clock, sha256(pem.encode()).digest()
        for old in [each for each, load in self._kept.items() if not load.start.is_recent(clock, OPENED_S)]:
            del self._kept[old]
        if key not in self._kept:
            await self._creating.acquire()  # A push whose time is over no longer waits.
            if key in self._kept:
                self._creating.release()
            else:
                self._create(key, pem)
        self._kept.move_to_end(key)
        try:
            # A cancelled wait does not cancel the load for other waiters.
            return await asyncio.shield(self._kept[key].context)
        except OSError:
            # A failed load may succeed next time.
            self._kept.pop(key, None)
            raise

    def _create(self, key: bytes, pem: str) -> None:
        around = self._surroundings
        load = asyncio.get_running_loop().run_in_executor(around.threads, presenting, around, pem)
        load.add_done_callback(lambda _: self._creating.release())
        self._kept[key] = _Load(ReadStart.of(around.clock), load)
        while len(self._kept) > CONTEXTS_MAX:
            self._kept.popitem(last=False)


def presenting(surroundings: AdapterEnvironment, pem: str) -> ssl.SSLContext:
    """Return a new context whose connections present the certificate in *pem*. Raises ssl.SSLError."""
    context = surroundings.tls()
    present(context, pem)
    return context
