"""Time, chance and workers of one history: who moves next, when, and which accident happens."""

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from tagcast import errors

from tests.simulation.baton import Baton, Crashed, UnavailableError, VirtualLoop, Worker
from tests.simulation.ledger import Broken
from tests.simulation.plan import EPOCH, Plan

LIFE_S = {"publish": 29, "operate": 29, "fan_out": 60, "retry": 120, "relay": 60, "sweep": 240}
STEPS_MAX = 400_000
EXPECTED = (
    Crashed,
    UnavailableError,
    errors.UnavailableError,
    errors.ContendedError,
    errors.ConflictError,
    errors.NotFoundError,
)
CALL_FAULTS = ("crash", "error", "applied_error", "throttle")


class Calls:
    """What the shipped code asked of its ports, in order, as a hash that renames do not change.

    It has operations with their tables, keys and numbers of writes; no attribute, module or function is named.
    """

    def __init__(self, *, tell: bool = False) -> None:
        self.count = 0
        self.told: list[str] = []
        self._tell = tell
        self._hash = hashlib.sha256()

    def called(self, text: str) -> None:
        self.count += 1
        self._hash.update(f"{text}\n".encode())
        if self._tell:
            self.told.append(text)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()[:16]


class Scheduler:
    """Every choice comes from the plan's seed, so that one seed is one history."""

    def __init__(self, plan: Plan, *, tell: bool = False) -> None:
        self.plan = plan
        self.now = EPOCH
        self.steps = 0
        self.horizon = EPOCH
        """Until this instant nothing but workers and timers has to move."""
        self.turns = Random(f"turns {plan.seed}")
        self.chance = Random(f"chance {plan.seed}")
        self.broken: Broken | None = None
        self.faulty = True
        self.accidents: Counter[str] = Counter()
        self.calls = Calls()
        self.workers: list[Worker] = []
        self.trace: list[str] = []
        self.baton = Baton(self._goes_on)
        self._tell = tell
        self._told = hashlib.sha256()
        self._serial = 0
        self._faults_left = plan.faults_max
        self._call_faults = tuple(fault for fault in CALL_FAULTS if fault in plan.faults)
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._favourite: Worker | None = None
        sticky = self.turns.choice((0.0, 0.5, 0.9))
        self._sticky = 0.0 if plan.restless else sticky
        self._chosen: Worker | None = None

    # What is told.

    def serial(self) -> int:
        self._serial += 1
        return self._serial

    def note(self, text: str, *values: object) -> None:
        if self._tell:
            line = f"{self.now - EPOCH:>10} {text.format(*values)}"
            self.trace.append(line)
            self._told.update(line.encode())

    @property
    def digest(self) -> str:
        return self._told.hexdigest()

    # Accidents.

    def draws(self, fault: str, rate: float) -> bool:
        """Say whether *fault* happens now."""
        if not self.faulty or fault not in self.plan.faults or self._faults_left <= 0:
            return False
        if self.chance.random() >= rate:
            return False
        self._faults_left -= 1
        self.accidents[fault] += 1
        return True

    def draw_fault(self, *also: str) -> str | None:
        """Return the accident of this call, if any; *also* are those that not every call can have."""
        if not self.faulty or self._faults_left <= 0:
            return None
        for fault in (*self._call_faults, *also):
            if self.draws(fault, self.plan.rate):
                return fault
        return None

    def perhaps_crash(self, worker: Worker) -> None:
        if self.draws("crash", self.plan.rate):
            self.note("{} !! crash", worker.name)
            worker.doomed = True
            raise Crashed

    # Time.

    def pass_time(self) -> None:
        self.now += self.turns.choice((0, 0, 1, 2, 5, 15))

    def at(self, instant: int, effect: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (max(instant, self.now), self.serial(), effect))

    def clock_of(self, worker: Worker) -> int:
        """Return what the worker's clock says; it may jump now."""
        if self.draws("jump", 0.02):
            worker.skew_ms += self.chance.choice((-300_000, -5_000, -1, 1, 5_000, 300_000))
            self.note("{} !! its clock jumps to {:+d} ms", worker.name, worker.skew_ms)
        return self.now + worker.skew_ms

    # Workers.

    def spawn(self, kind: str, label: str, body: Callable[[Worker], Any], then: Callable[[Worker], None]) -> Worker:
        """Start an invocation; *then* is told when it ended, was killed or failed."""

        def live(worker: Worker) -> None:
            worker.answer = body(worker)

        worker = Worker(f"{kind}#{self.serial()}", kind, live, self.now + LIFE_S[kind] * 1000)
        worker.label, worker.then = label, then
        if self.draws("timeout", 0.05):
            worker.dies_at = self.now + self.chance.choice((3, 40, 300, 2_000, 8_000, 20_000))
        if self.faulty and "skew" in self.plan.faults:
            worker.skew_ms = self.chance.choice((0, 0, -300_000, -1_000, -1, 1, 1_000, 300_000))
            self.accidents["skew"] += worker.skew_ms != 0
        worker.parked_until = self.now
        self.note("{} begins: {}", worker.name, label)
        self.workers.append(worker)
        return worker

    def loop(self, worker: Worker) -> VirtualLoop:
        return VirtualLoop(self.baton, worker, lambda: self.now)

    def play_until(self, instant: int) -> None:
        """Let things happen until *instant*."""
        self.horizon = instant
        while self.now < instant and self.steps < STEPS_MAX:
            self.step()

    def step(self) -> None:
        self.steps += 1
        while self._chosen is None and self._timers and self._timers[0][0] <= self.now:
            heapq.heappop(self._timers)[2]()
        chosen = self._chosen or self._choose()
        self._chosen = None
        if chosen is None:
            self._advance()
            return
        if chosen.dies_at <= self.now:
            self.note("{} is killed by its timeout", chosen.name)
            chosen.doomed = True
        self._resume(chosen)

    def end_workers(self) -> None:
        """Let no thread stay in the middle of a history that is over."""
        self.horizon = self.now
        for worker in self.workers:
            worker.doomed = True
            while worker.strand is not None and not worker.done:
                self.baton.resume(worker)
        self.workers.clear()

    def _goes_on(self, worker: Worker) -> bool:
        """Say whether the next turn is *worker*'s again, so that nobody else has to be called."""
        if self.broken is not None:
            return False
        while self.now < self.horizon and self.steps < STEPS_MAX:
            if self._timers and self._timers[0][0] <= self.now:
                return False
            chosen = self._choose()
            if chosen is None:
                self._advance()
                continue
            if chosen is worker and worker.dies_at > self.now:
                self.steps += 1
                return True
            self._chosen = chosen
            return False
        return False

    def _choose(self) -> Worker | None:
        """Return who moves next at this instant, if anybody can."""
        now = self.now
        while True:
            ready = [
                worker
                for worker in self.workers
                if worker.parked_until is None or worker.parked_until <= now or worker.dies_at <= now
            ]
            if not ready:
                return None
            chosen = self._favourite
            if chosen not in ready or self.turns.random() >= self._sticky:
                chosen = self._favourite = ready[self.turns.randrange(len(ready))] if len(ready) > 1 else ready[0]
            assert chosen is not None
            if chosen.dies_at <= now or not self.draws("stall", 0.003):
                return chosen
            chosen.parked_until = now + self.chance.choice((50, 2_000, 20_000, 100_000))
            self.note("{} !! stands still until {}", chosen.name, chosen.parked_until - EPOCH)

    def _advance(self) -> None:
        """Go to the next instant at which anything can happen."""
        instants = [worker.dies_at for worker in self.workers]
        instants += [worker.parked_until for worker in self.workers if worker.parked_until is not None]
        if self._timers:
            instants.append(self._timers[0][0])
        self.now = max(self.now, min(instants))

    def _resume(self, worker: Worker) -> None:
        self.baton.resume(worker)
        if self.broken is not None:
            raise self.broken
        if not worker.done:
            return
        self.workers.remove(worker)
        fault = worker.fault
        self.note("{} {}", worker.name, "ends" if fault is None else f"fails: {fault!r}")
        if fault is not None and not isinstance(fault, EXPECTED):
            raise Broken("no surprise", f"{worker.name} ({worker.label}) raised {fault!r}") from fault
        worker.then(worker)
