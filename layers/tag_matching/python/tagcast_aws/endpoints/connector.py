"""The pool of connections under the HTTP pusher."""

from __future__ import annotations

import asyncio
from collections import deque

import aiohttp
from aiohttp.client_proto import ResponseHandler

from tagcast_aws.endpoints.payload import SLICE_BYTES

OPEN_SHARE = 1.1
"""Idle connections may add a tenth to those in use: 880 of the 1,024 descriptors that Lambda allows.

The clients of the table, the queue and the workflow need some, too.
"""


class KeepingConnector(aiohttp.TCPConnector):
    """A pool whose idle connections count too: before it grows beyond its limit it closes some of them.

    aiohttp itself counts only connections in use, so many endpoints would exhaust the file descriptors.
    """

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[aiohttp.tracing.Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        if sum(map(len, self._conns.values())) + len(self._acquired) > self._open_max:
            excess = self.idle + len(self._acquired) - self._open_max
            self._close_idle(int(excess) + self.limit // 50 if excess > 0 else 0)
        protocol = await super()._create_connection(req, traces, timeout)
        if isinstance(protocol.transport, asyncio.WriteTransport):
            protocol.transport.set_write_buffer_limits(high=SLICE_BYTES)
        return protocol

    @property
    def _open_max(self) -> float:
        return OPEN_SHARE * self.limit

    @property
    def idle(self) -> int:
        """How many connections are open and not in use."""
        return len(self._open())

    def _open(self) -> list[tuple[float, ResponseHandler]]:
        # Closed connections stay listed until the pool next looks for one of their endpoint.
        kept = (entry for entries in self._conns.values() for entry in entries)
        return [(since, protocol) for protocol, since in kept if protocol.is_connected()]

    def _close_idle(self, count: int) -> None:
        # Batches come back to the same endpoints in turn: what was used last will be needed latest.
        for _, protocol in sorted(self._open(), key=lambda entry: entry[0], reverse=True)[:count]:
            protocol.close()
        self._forget_closed()

    def _forget_closed(self) -> None:
        """Unlist what is closed: as long as it counts, every connection that is made looks through all others."""
        for key, entries in tuple(self._conns.items()):
            kept = deque(entry for entry in entries if entry[0].is_connected())
            if kept:
                self._conns[key] = kept
            else:
                del self._conns[key]
