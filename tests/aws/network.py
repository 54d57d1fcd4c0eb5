"""A network in memory: the shipped HTTP client writes real bytes to it, and listeners answer with real bytes."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Protocol

from tests.aws.loop import VirtualLoop
from tests.aws.strands import Host
from tests.aws.timeline import Timeline

DESCRIPTORS_MAX = 1_024
"""https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html: file descriptors of an environment."""
ROUND_TRIP_MS = (0.5, 3.0)
GIVES_UP_S = 127.0
"""So long Linux tries to reach a host that does not answer."""


@dataclass(frozen=True)
class Request:
    """One HTTP request as it came over a connection."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Listener(Protocol):
    """What stands behind an address."""

    def reached(self) -> str:
        """Say what a connection attempt meets: ``open``, ``refused`` or ``silent``."""

    def asked(self, request: Request, connection: Connection) -> None:
        """Take one whole request; the answer is sent over *connection* whenever it is ready."""

    def left(self, connection: Connection) -> None:
        """Hear that the client closed the connection."""


class Connection(asyncio.Transport):
    """The client's transport; its other end is the listener."""

    def __init__(self, network: Network, loop: VirtualLoop, host: Host, listener: Listener, protocol: Any) -> None:
        super().__init__()
        self.host = host
        self.idle_since = network.timeline.now
        self._network, self._loop, self._listener, self._protocol = network, loop, listener, protocol
        self._received = b""
        self._open = True

    # The client's end.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._open:
            self._received += bytes(data)
            self._read_requests()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._network.closed(self.host)
            self._loop.call_soon(self._protocol.connection_lost, None)
            self._listener.left(self)

    abort = close

    def is_closing(self) -> bool:
        return not self._open

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """What is written leaves at once, so no limit is ever met."""

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    # The listener's end.

    @property
    def is_open(self) -> bool:
        return self._open

    def send(self, data: bytes) -> None:
        """Send bytes to the client; it reads them when its loop runs."""
        if self._open:
            self._loop.call_soon_threadsafe(self._deliver, data)

    def hang_up(self, error: OSError | None = None) -> None:
        """Close from the listener's side."""
        if self._open:
            self._loop.call_soon_threadsafe(self._lost, error)

    def _deliver(self, data: bytes) -> None:
        if self._open:
            self._protocol.data_received(data)

    def _lost(self, error: OSError | None) -> None:
        if self._open:
            self._open = False
            self._network.closed(self.host)
            if error is None:
                self._protocol.eof_received()
            self._protocol.connection_lost(error)

    def _read_requests(self) -> None:
        while True:
            head, found, rest = self._received.partition(b"\r\n\r\n")
            if not found:
                return
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            length = int(headers.get("content-length", "0"))
            if len(rest) < length:
                return
            self._received = rest[length:]
            method, path, _ = first.split(" ")
            request = Request(method, path, headers, rest[:length])
            self._network.sent(self, request)
            self._network.timeline.after(self._network.one_way_ms(), partial(self._listener.asked, request, self))


def address_of(number: int) -> str:
    """Return the public address of one of some millions of listeners."""
    return f"93.{184 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}"


class Network:
    """Names, addresses and what listens there."""

    def __init__(self, timeline: Timeline, dice: Random) -> None:
        self.timeline = timeline
        self.watch: Callable[[Host, Request], None] = lambda host, request: None
        """Is told of each request when it leaves its process."""
        self.round_trip_ms = ROUND_TRIP_MS
        self._dice = dice
        self._addresses: dict[str, str] = {}
        self._listeners: dict[str, Listener] = {}
        self._open: Counter[str] = Counter()

    def listen(self, name: str, listener: Listener) -> None:
        """Put *listener* behind a host name, at a public address of its own."""
        address = address_of(len(self._addresses))
        self._addresses[name] = address
        self._listeners[address] = listener

    def look_up(self, name: str) -> list[str]:
        """Resolve a name, as the shipped resolver's seam wants it."""
        if name not in self._addresses:
            raise OSError(errno.ENOENT, "does not resolve")
        return [self._addresses[name]]

    def one_way_ms(self) -> float:
        return self._dice.uniform(*self.round_trip_ms) / 2

    async def reach(self, loop: asyncio.AbstractEventLoop, address: tuple[str, int]) -> None:
        """Connect, or raise what a socket raises."""
        found = self._listeners[address[0]].reached()
        if found == "silent":
            await asyncio.sleep(GIVES_UP_S)
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        await asyncio.sleep(2 * self.one_way_ms() / 1000)
        if found == "refused":
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

    def open(self, loop: VirtualLoop, host: Host, address: tuple[str, int], protocol: Any) -> Connection:
        """Return the transport of a connection that was reached."""
        if self._open[host.name] >= DESCRIPTORS_MAX:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        self._open[host.name] += 1
        return Connection(self, loop, host, self._listeners[address[0]], protocol)

    def closed(self, host: Host) -> None:
        self._open[host.name] -= 1

    def sent(self, connection: Connection, request: Request) -> None:
        connection.idle_since = self.timeline.now
        self.watch(connection.host, request)
