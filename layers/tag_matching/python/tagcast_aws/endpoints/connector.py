"""The pool of connections under the HTTP pusher."""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar

import aiohttp
from aiohttp.client_proto import ResponseHandler

from tagcast_aws.endpoints.payload import SLICE_BYTES

OPEN_SHARE = 1.1
"""Idle connections may add a tenth to those in use: 880 of the 1,024 descriptors that Lambda allows.

The clients of the table, the queue and the workflow need some, too.
"""

WAS_MADE: ContextVar[bool] = ContextVar("WAS_MADE")
"""Whether the current request got a new connection. The caller resets it before."""


class KeepingConnector(aiohttp.TCPConnector):
    """A connection pool that also counts idle connections: before it exceeds its limit it closes some of them.

    aiohttp itself counts only connections in use, so a large number of endpoints would exhaust the file descriptors.
    """

    _open_at_most = 0
    """An upper bound of open connections; above it they are counted."""

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[aiohttp.tracing.Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        WAS_MADE.set(True)
        self._open_at_most += 1
        if self._open_at_most > OPEN_SHARE * self.limit:
            self._make_room()
        protocol = await super()._create_connection(req, traces, timeout)
        if isinstance(protocol.transport, asyncio.WriteTransport):
            protocol.transport.set_write_buffer_limits(high=SLICE_BYTES)
        return protocol

    @property
    def idle(self) -> int:
        """The number of open connections not in use."""
        return len(self._open())

    def _open(self) -> list[tuple[float, ResponseHandler]]:
        # Closed connections stay listed until the pool next looks for one of the same endpoint.
        kept = (entry for entries in self._conns.values() for entry in entries)
        return [(since, protocol) for protocol, since in kept if protocol.is_connected()]

    def _make_room(self) -> None:
        """Close some idle connections if too many are open, remove closed ones from the list, and count the rest."""
        known = self._open()
        excess = len(known) + len(self._acquired) - OPEN_SHARE * self.limit
        if excess > 0:
            # Batches use the same endpoints in turn, so the most recently used connection is needed last.
            known.sort(key=lambda entry: entry[0], reverse=True)
            for _, protocol in known[: int(excess) + self.limit // 50]:
                protocol.close()
        for key, entries in tuple(self._conns.items()):
            kept = [entry for entry in entries if entry[0].is_connected()]
            if not kept:
                del self._conns[key]
            elif len(kept) < len(entries):
                self._conns[key] = deque(kept)
        self._open_at_most = sum(map(len, self._conns.values())) + len(self._acquired)
