"""An event loop on virtual time: it parks the strand that runs it, and its executor's threads are strands, too."""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from tests.aws.strands import Host, Strand
from tests.aws.timeline import EPOCH, Timeline

if TYPE_CHECKING:
    from socket import socket

    from tests.aws.network import Network

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
POOL_MAX = 5
"""Threads of a loop's own executor on two cores; the shipped executors say their number themselves."""


class StrandExecutor(concurrent.futures.Executor):
    """The threads of one executor: so many strands of the process at most, the rest waits in order."""

    def __init__(self, timeline: Timeline, host: Host, size: int) -> None:
        self._timeline, self._host, self._size = timeline, host, size
        self._busy = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[T]:
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except Exception as fault:  # noqa: BLE001  as a thread of the pool does
                future.set_exception(fault)
            else:
                future.set_result(result)

        self._waiting.append(work)
        if self._busy < self._size:
            self._busy += 1
            self._timeline.start("thread", self._host, self._serve)
        return future

    def _serve(self) -> None:
        while self._waiting:
            self._waiting.popleft()()
        self._busy -= 1


class SerialFuture(asyncio.Future[Any]):
    """A future whose place in a set is the same in every run: aiohttp keeps those that wait for a name in sets."""

    def __init__(self, serial: int, loop: asyncio.AbstractEventLoop) -> None:
        self.serial = serial
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.serial


class SerialTask(asyncio.Task[Any]):
    """A task whose place in a set is the same in every run."""

    def __init__(self, serial: int, coro: Any, **how: Any) -> None:
        self.serial = serial
        super().__init__(coro, **how)

    def __hash__(self) -> int:
        return self.serial


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop of one process. While its strand is in a blocking call, nothing of the loop moves.

    What arrives while the process is frozen waits in the loop until it runs again, timers included.
    """

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, timeline: Timeline, host: Host, network: Network) -> None:
        super().__init__()
        self._timeline, self._host, self._network = timeline, host, network
        self._selector = self
        self._parked: Strand | None = None
        self._runner: Strand | None = None
        self._pools: dict[int, tuple[object, StrandExecutor]] = {}
        self._addresses: dict[socket, tuple[str, int]] = {}
        self._serial = 0
        self.set_exception_handler(lambda *_: None)

    def create_future(self) -> asyncio.Future[Any]:
        self._serial += 1
        return SerialFuture(self._serial, self)

    def create_task(self, coro: Any, *, name: object = None, context: Any = None) -> Any:
        self._serial += 1
        return SerialTask(self._serial, coro, loop=self, name=str(name or f"task {self._serial}"), context=context)

    def time(self) -> float:
        return self._timeline.measured_by(self._host)

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is not None and timeout <= 0:
            return []
        strand = self._timeline.current
        assert strand is not None, "a loop outside of its process"
        until = None if timeout is None else self._micros(self._scheduled[0].when())
        self._parked = strand
        try:
            self._timeline.park(strand, until)
        finally:
            self._parked = None
        return []

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():  # The process is no more: what was for it is lost.
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon(callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = self.call_soon(callback, *args, context=context)
        if self._parked is not None:
            self._timeline.wake(self._parked)
            self._parked = None
        return handle

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        if id(executor) not in self._pools:
            size = getattr(executor, "_max_workers", POOL_MAX)
            self._pools[id(executor)] = (executor, StrandExecutor(self._timeline, self._host, size))
        return asyncio.wrap_future(self._pools[id(executor)][1].submit(func, *args), loop=self)

    async def sock_connect(self, sock: socket, address: Any) -> None:
        """Reach a listener of the network; the real socket is never connected."""
        await self._network.reach(self, address)
        self._addresses[sock] = address

    async def create_connection(self, protocol_factory: Callable[[], Any], *_: Any, **how: Any) -> tuple[Any, Any]:
        sock = how["sock"]
        address = self._addresses.pop(sock)
        sock.close()
        protocol = protocol_factory()
        transport = self._network.open(self, self._host, address, protocol)
        protocol.connection_made(transport)
        return transport, protocol

    def is_run_by(self, strand: Strand | None) -> bool:
        """Say whether the loop runs, and on *strand*."""
        return strand is not None and self._runner is strand

    def run_forever(self) -> None:
        self._runner = self._timeline.current
        try:
            super().run_forever()
        finally:
            self._runner = None

    def abandon(self) -> None:
        """Let go of everything when the process is no more."""
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            task.get_coro().close()
        self._ready.clear()
        self._scheduled.clear()
        self._closed = True

    def _micros(self, when: float) -> int:
        return EPOCH * 1000 + self._host.stood_us + math.ceil(when * 1_000_000 - 0.001)

    def _process_events(self, event_list: Any) -> None:
        pass
