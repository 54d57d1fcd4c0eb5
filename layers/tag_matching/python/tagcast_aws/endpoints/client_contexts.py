"""TLS by the certificate that connections present, so that none is used for a subscription with another one."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict

from tagcast_aws.endpoints.adapter import Surroundings
from tagcast_aws.endpoints.client_certificate import present

CONTEXTS_MAX = 64
"""Each has the issuers that everybody trusts for itself: nearly a megabyte, and some 20 ms to make."""


class ClientContexts:
    """Makes contexts beside the event loop, and keeps those that were wanted last; bound to one loop."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._kept: OrderedDict[str, asyncio.Future[ssl.SSLContext]] = OrderedDict()

    async def presenting(self, pem: str) -> ssl.SSLContext:
        """Return the context whose connections present the certificate in *pem*.

        Raises ssl.SSLError if it cannot be used, another OSError if this process has no descriptor left to load it.
        """
        if pem not in self._kept:
            around, loop = self._surroundings, asyncio.get_running_loop()
            self._kept[pem] = loop.run_in_executor(around.threads, presenting, around, pem)
            while len(self._kept) > CONTEXTS_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(pem)
        try:
            # Who gives up waiting leaves it to the others who wait.
            return await asyncio.shield(self._kept[pem])
        except OSError:
            # What went wrong once may go well at the next attempt.
            self._kept.pop(pem, None)
            raise


def presenting(surroundings: Surroundings, pem: str) -> ssl.SSLContext:
    """Return a context of its own whose connections present the certificate in *pem*. Raises ssl.SSLError."""
    context = surroundings.tls()
    present(context, pem)
    return context
