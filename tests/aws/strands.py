"""Threads of which one moves at a time: each goes on when it is told to and hands over when it lets time pass."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field


class Killed(SystemExit):
    """The process of this strand is no more. asyncio lets it through at once, and no code of ours catches it."""


@dataclass(eq=False)
class Host:
    """A process: what is frozen and killed together."""

    name: str
    frozen: bool = False
    strands: list[Strand] = field(default_factory=list)
    held: list[tuple[Strand, int]] = field(default_factory=list)
    """Strands whose time came while the process was frozen."""
    stood_us: int = 0
    """For how long its own clocks stood still."""

    def enter(self) -> None:
        """Prepare the context of a new strand."""


class _Thread:
    """A thread that runs one strand after another, only while it is its turn."""

    def __init__(self) -> None:
        self.turn, self.back = threading.Lock(), threading.Lock()
        self.turn.acquire()
        self.back.acquire()
        self.work: Callable[[], None] | None = None
        threading.Thread(target=self._run, daemon=True, name="strand").start()

    def _run(self) -> None:
        while True:
            self.turn.acquire()
            assert self.work is not None
            self.work()
            self.back.release()


_IDLE: list[_Thread] = []


class Strand:
    """One line of work of a process."""

    def __init__(self, name: str, host: Host, work: Callable[[], None]) -> None:
        self.name = name
        self.host = host
        self.token = 0
        """Which of its wake-ups counts: the latest."""
        self.doomed = False
        self.done = False
        self.fault: BaseException | None = None
        """What the work raised that is none of the process's own affairs: it ends the play."""
        self._work = work
        self._thread: _Thread | None = None

    def go_on(self) -> None:
        """Let the strand move until it hands over or ends; called by the timeline."""
        if self.doomed and self._thread is None:
            self.done = True
            return
        if self._thread is None:
            self._thread = _IDLE.pop() if _IDLE else _Thread()
            self._thread.work = self._live
        self._thread.turn.release()
        self._thread.back.acquire()
        if self.done:
            _IDLE.append(self._thread)
            self._thread = None

    def hand_over(self) -> None:
        """Let the others move; called by the strand itself."""
        assert self._thread is not None
        thread = self._thread
        thread.back.release()
        thread.turn.acquire()

    def _live(self) -> None:
        context = Context()
        try:
            context.run(self.host.enter)
            context.run(self._work)
        except Killed:
            pass
        except BaseException as fault:  # noqa: BLE001  the timeline raises it
            self.fault = fault
        self.done = True
