"""Many workers, one at a time: threads that pass a baton, and an event loop without a clock or sockets of its own."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from tests.simulation.plan import Action


class Crashed(BaseException):
    """The process of this worker is no more; nothing in the core may catch it."""


class UnavailableError(Exception):
    """What an adapter raises when AWS answers with an error (a ClientError there)."""


class _Strand:
    """A thread that runs one worker after another, only while it holds the baton."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.turn.acquire()
        self.work: Callable[[], None] | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.turn.acquire()
            assert self.work is not None
            self.work()


_IDLE: list[_Strand] = []


@dataclass(eq=False)
class Worker:
    """One invocation of one function: a process that may die between any two calls."""

    name: str
    kind: str
    body: Callable[[Worker], None]
    dies_at: int
    label: str = ""
    then: Callable[[Worker], None] = lambda worker: None
    skew_ms: int = 0
    latest: int = 0
    """The latest instant that its clock has shown."""
    action: Action | None = None
    lane: tuple[str, str] | None = None
    """Subscription and generation, of a worker that redelivers."""
    claim: int | None = None
    by_hand: bool = False
    """Its claim was due because an operator said so."""
    read_at: dict[str, int] = field(default_factory=dict)
    """At which step of the history it last read the row of a message."""
    read_first_at: int | None = None
    """At which step it read the first of them."""
    in_contact: bool = False
    """A receiver took one of its messages, or refused one that was at fault."""
    lost: int = 0
    """How many conditions of its writes were lost to others."""
    parked_until: int | None = None
    """None while it waits for its turn only; otherwise an instant before which it cannot go on."""
    done: bool = False
    doomed: bool = False
    fault: BaseException | None = None
    answer: Any = None
    awaited: list[tuple[int, int, asyncio.Future[None]]] = field(default_factory=list)
    strand: _Strand | None = None


class Baton:
    """Hands control to one worker and takes it back at its next call of a port."""

    def __init__(self, goes_on: Callable[[Worker], bool]) -> None:
        self._back = threading.Lock()
        self._back.acquire()
        self._goes_on = goes_on
        self.current: Worker | None = None

    def resume(self, worker: Worker) -> None:
        """Let *worker* go on until it parks or ends."""
        if worker.strand is None:
            worker.strand = _IDLE.pop() if _IDLE else _Strand()
            worker.strand.work = lambda: self._live(worker)
        self.current = worker
        strand = worker.strand
        strand.turn.release()
        self._back.acquire()
        self.current = None
        if worker.done:
            _IDLE.append(strand)

    def _live(self, worker: Worker) -> None:
        try:
            worker.body(worker)
        except BaseException as fault:  # noqa: BLE001  the history looks at it
            worker.fault = fault
        worker.done = True
        self._back.release()

    def park(self, worker: Worker, until: int | None = None) -> None:
        """Give the baton back, called by the worker itself; it raises Crashed if the worker is killed meanwhile."""
        if worker.doomed:
            raise Crashed
        worker.parked_until = until
        if not self._goes_on(worker):  # Changing threads is dear, and often the next turn is this worker's again.
            self._back.release()
            assert worker.strand is not None
            worker.strand.turn.acquire()
        worker.parked_until = None
        if worker.doomed:
            raise Crashed


class VirtualLoop:
    """An event loop that parks its worker whenever only pushes could make it go on.

    It has what tasks and futures ask of a loop, and runs what is ready in the order of asyncio's own, round by round:
    without handles, timers and a selector, which would be a tenth of all the work of a history.
    """

    def __init__(self, baton: Baton, worker: Worker, now: Callable[[], int]) -> None:
        self._baton, self._worker, self._now = baton, worker, now
        self._ready: deque[tuple[Callable[..., object], tuple[Any, ...], Context]] = deque()
        self._tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        return self._now() / 1000

    def get_debug(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> None:
        self._ready.append((callback, args, context or copy_context()))

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=cast("Any", self))

    def create_task(self, coro: Any, *, name: str = "", context: Context | None = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=cast("Any", self), name=name, context=context)
        self._tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Do nothing: what nobody awaited belongs to a process that is no more."""

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run *work* to its end as ``asyncio.run`` does."""
        asyncio._set_running_loop(cast("Any", self))
        try:
            task = self.create_task(work)
            while not task.done():
                if not self._ready:
                    self._wait()
                for _ in range(len(self._ready)):
                    callback, args, context = self._ready.popleft()
                    context.run(callback, *args)
            return task.result()
        finally:
            asyncio._set_running_loop(None)
            self._abandon()

    def _wait(self) -> None:
        worker = self._worker
        assert worker.awaited, "a loop that waits for nothing"
        self._baton.park(worker, worker.awaited[0][0])
        now = self._now()
        while worker.awaited and worker.awaited[0][0] <= now:
            _, _, future = heapq.heappop(worker.awaited)
            if not future.done():
                future.set_result(None)

    def _abandon(self) -> None:
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                task.get_coro().close()
