"""A timeline on which computing takes time, too: what a thread's processor did, as slow as its function's memory is."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tests.aws.environments import Environment
from tests.aws.limits import LAMBDA_FULL_CPU_MB
from tests.aws.strands import Host, Strand
from tests.aws.timeline import Timeline

Reading = Callable[[], int]
"""Nanoseconds of processor that the calling thread has used."""


@dataclass
class _Account:
    """What was read of a strand's thread last; *aside*: it plays the world now, which costs the function nothing."""

    read_ns: int = 0
    aside: bool = False


class ComputingTimeline(Timeline):
    """Each process has a clock of its own that is ahead by what it computed and nobody has waited for yet.

    Whatever a process starts, sends or waits for counts from there; so two of its threads never compute at once.
    """

    def __init__(self, reading: Reading = time.thread_time_ns) -> None:
        super().__init__()
        self.cpu_ms: Counter[str] = Counter()
        """Processor time by kind of function, on a whole processor."""
        self.entering: Callable[[Host], None] = lambda host: None
        """Is told of the process that moves next."""
        self._reading = reading
        self._accounts: WeakKeyDictionary[Strand, _Account] = WeakKeyDictionary()
        self._free_at: WeakKeyDictionary[Host, int] = WeakKeyDictionary()

    def compute(self, ms: float) -> None:
        """Let the process that moves now compute for so long, on a whole processor."""
        assert self.current is not None
        host = self.current.host
        if isinstance(host, Environment):
            self.cpu_ms[host.function.kind] += ms  # type: ignore[assignment]  # Counters count anything.
            slower = max(1.0, LAMBDA_FULL_CPU_MB / host.function.memory_mb)
            self._free_at[host] = self._ahead(host) + round(1000 * ms * slower)

    def step_aside(self, aside: bool) -> None:
        """Let what the strand that moves does from here on cost nothing, or cost again."""
        assert self.current is not None
        if aside:
            self._settle(self.current)
        account = self._account(self.current)
        account.aside, account.read_ns = aside, self._reading()

    def after(self, ms: float, effect: Callable[[], None]) -> None:
        if self.current is None:
            super().after(ms, effect)
        else:
            self._add(self._settle(self.current) + round(ms * 1000), None, 0, effect)

    def spend(self, ms: float) -> None:
        if self.current is not None:
            self.park(self.current, self._settle(self.current) + round(ms * 1000))

    def start(self, name: str, host: Host, work: Callable[[], None]) -> Strand:
        def begun() -> None:
            assert self.current is not None
            self._account(self.current).read_ns = self._reading()
            work()
            self._settle(self.current)

        return super().start(name, host, begun)

    def park(self, strand: Strand, until: int | None = None) -> None:
        ahead = self._settle(strand)
        super().park(strand, None if until is None else max(until, ahead))
        self._account(strand).read_ns = self._reading()

    def wake(self, strand: Strand) -> None:
        if self.current is not None:
            self._settle(self.current)
        strand.token += 1
        self._add(self._ahead(strand.host), strand, strand.token)

    def _resume(self, strand: Strand) -> None:
        self.entering(strand.host)
        super()._resume(strand)

    def _settle(self, strand: Strand) -> int:
        """Charge what the strand computed since it was asked last; return how far its process is, in microseconds."""
        account = self._account(strand)
        if not account.aside:
            read_ns = self._reading()
            self.compute((read_ns - account.read_ns) / 1_000_000)
            account.read_ns = read_ns
        return self._ahead(strand.host)

    def _ahead(self, host: Host) -> int:
        return max(self.micros, self._free_at.get(host, 0))

    def _account(self, strand: Strand) -> _Account:
        found = self._accounts.get(strand)
        if found is None:
            found = self._accounts[strand] = _Account()
        return found
