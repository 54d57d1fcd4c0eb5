"""The connections of pushes and verifications, and the pool under the HTTP pusher."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from contextvars import ContextVar
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.streams import StreamReader

from tagcast_aws.endpoints.adapter import AwsConnections
from tagcast_aws.endpoints.payload import SLICE_BYTES

OPEN_SHARE = 1.1
"""All open connections to endpoints, including idle ones, may exceed the limit of connections in use by a tenth.

They take at most 880 of the 1,024 descriptors that Lambda allows. The clients of the table, the queue and the
workflow need descriptors, too.
"""

WAS_MADE: ContextVar[bool] = ContextVar("WAS_MADE")
"""Whether the current request got a new connection. The caller resets it before the request."""


INTERIM_MAX = 16
"""The maximum interim responses (1xx) before a response. aiohttp would read any number of them, without a pause."""
RECEIVED_BYTES_MAX = 1_048_576
"""The maximum bytes that are parsed for one response. Reading a large body pauses only after some 500 KB.

aiohttp would read any number of blank lines before a response, and of extensions and zeros in a chunk's size.
"""
READ_BYTES = 16_384
_HEAD_END = re.compile(rb"[^\r\n]\r?\n\r?\n")
_HEAD_END_BYTES = len(b"x\r\n\r\n")


class MalformedBodyError(aiohttp.ClientPayloadError):
    """The body of a response violates HTTP, for example in the size of a chunk."""


class BoundedResponses(ResponseHandler):
    """The responses of one connection: one for each request, in a bounded number of bytes and interim responses (1xx).

    Surplus bytes close the connection (RFC 9112, 6.3). aiohttp would read a surplus response as the response to the
    next request. It would also forget a response without a body (204) if unexpected bytes arrive together with it.
    """

    _interim = 0
    _received = 0
    _is_answered = True
    """False while a request waits for the head of its response."""
    _head_tail = b""
    """The last bytes of an incomplete head."""

    def set_response_params(self, **params: Any) -> None:
        """Expect the response to a new request."""
        super().set_response_params(**params)
        self._is_answered, self._head_tail, self._received = False, b"", 0

    def data_received(self, data: bytes) -> None:
        """Parse the received bytes in parts, because a receiver may send thousands of small answers at once."""
        self._received += len(data)
        if self._received > RECEIVED_BYTES_MAX:
            self._abort("too many bytes")
            self._fail_body()
            return
        for start in range(0, max(1, len(data)), READ_BYTES):
            self._parse(data[start : start + READ_BYTES])

    def _parse(self, part: bytes) -> None:
        """Parse each head alone, so that bytes after it cannot spoil it. Bytes after a whole response are surplus."""
        while True:  # It ends: with the bytes, or after a fault.
            if part and self._is_answered and (self._payload is None or self._payload.is_eof()):
                self._close_after_surplus()
                return
            end = len(part) if self._is_answered else self._head_end(part)
            super().data_received(part[:end])
            part = part[end:]
            if self.exception() is not None:
                self._fail_body()
                return
            if not part:
                return

    def _head_end(self, part: bytes) -> int:
        """Return how many bytes at the beginning of *part* belong to the head."""
        known = self._head_tail
        found = _HEAD_END.search(known + part)
        self._head_tail = (known + part)[1 - _HEAD_END_BYTES :] if found is None else b""
        return len(part) if found is None else found.end() - len(known)

    def _fail_body(self) -> None:
        # aiohttp would let the reader of a malformed body wait until the timeout.
        if self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(MalformedBodyError())

    def _close_after_surplus(self) -> None:
        self.force_close()
        if self.transport is not None:
            self.transport.close()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Pass on one parsed response; abort the connection after too many interim responses."""
        if self._interim > INTERIM_MAX:
            return
        if self._is_answered:
            self._close_after_surplus()
            return
        self._interim = self._interim + 1 if 100 <= data[0].code < 200 else 0
        self._is_answered = not self._interim
        if self._interim <= INTERIM_MAX:
            super().feed_data(data, size)
            return
        self._abort("too many interim answers")

    def _abort(self, reason: str) -> None:
        self.set_exception(HttpProcessingError(message=reason))
        if self.transport is not None:
            self.transport.abort()


class BoundedConnector(aiohttp.TCPConnector):
    """A connector whose connections have :class:`BoundedResponses`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._factory = cast("partial[ResponseHandler]", partial(BoundedResponses, loop=self._loop))


class KeepingConnector(BoundedConnector):
    """A connection pool that also counts idle connections. It closes some idle connections before it exceeds its limit.

    aiohttp counts only connections in use, so a large number of endpoints would exhaust the file descriptors. *beside*
    are connections of AWS clients, which reduce the limit.
    """

    _open_at_most = 0
    """An upper bound of the open connections. If this bound exceeds the limit, the connections are counted."""

    def __init__(self, beside: AwsConnections | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self._beside = beside or AwsConnections()
        self._beside.make_room = self._make_room_if_needed

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[aiohttp.tracing.Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        WAS_MADE.set(True)
        self._open_at_most += 1
        self._make_room_if_needed()
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

    def _make_room_if_needed(self) -> None:
        if self._open_at_most > OPEN_SHARE * self.limit - self._beside.most:
            self._make_room()

    def _make_room(self) -> None:
        """Close some idle connections if too many are open, forget closed connections, and count the open ones."""
        known = self._open()
        room = OPEN_SHARE * self.limit - len(known) - len(self._acquired)
        if self._beside.most > room:
            self._beside.close_idle()
        excess = self._beside.most - room
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
