"""TLS contexts by client certificate, so that connections of one certificate serve no other subscription."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict

from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.client_certificate import present

CONTEXTS_MAX = 64
"""Each context has its own copy of the trusted issuers: nearly a megabyte, and some 20 ms to create."""


class ClientContexts:
    """Creates contexts beside the event loop and caches the recent ones; bound to one loop."""

    def __init__(self, surroundings: AdapterEnvironment) -> None:
        self._surroundings = surroundings
        self._kept: OrderedDict[str, asyncio.Future[ssl.SSLContext]] = OrderedDict()

    async def presenting(self, pem: str) -> ssl.SSLContext:
        """Return the context whose connections present the certificate in *pem*.

        Raises ssl.SSLError for an unusable certificate. Raises another OSError if the process has no file descriptor
        left to load the certificate.
        """
        if pem not in self._kept:
            around, loop = self._surroundings, asyncio.get_running_loop()
            self._kept[pem] = loop.run_in_executor(around.threads, presenting, around, pem)
            while len(self._kept) > CONTEXTS_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(pem)
        try:
            # A cancelled wait does not cancel the load for other waiters.
            return await asyncio.shield(self._kept[pem])
        except OSError:
            # A failed load may succeed next time.
            self._kept.pop(pem, None)
            raise


def presenting(surroundings: AdapterEnvironment, pem: str) -> ssl.SSLContext:
    """Return a new context whose connections present the certificate in *pem*. Raises ssl.SSLError."""
    context = surroundings.tls()
    present(context, pem)
    return context
