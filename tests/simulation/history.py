"""One history: the shipped handlers and use cases as workers over simulated ports, from a plan to quiescence."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tagcast.archive.record import Record
from tagcast.ports import Key, Memory, World
from tagcast_aws import wiring

from tests.aws.limits import EXPIRED_LATE_S
from tests.simulation.checks import Checks
from tests.simulation.endpoints import Endpoints
from tests.simulation.fifo_queue import FifoQueue
from tests.simulation.ledger import Broken, Change, Row
from tests.simulation.operators import Operators
from tests.simulation.plan import PROCESSES, Plan, draw_plan
from tests.simulation.ports import world_of
from tests.simulation.scheduler import STEPS_MAX, Scheduler
from tests.simulation.store import SimStore
from tests.simulation.stream import Stream
from tests.simulation.workflow import Executions

SETTLING_MS = 1_200_000
SEARCH_MS = 6 * 3_600_000
LATE_MS_MAX = 1000 * EXPIRED_LATE_S[1]


@dataclass(frozen=True)
class Result:
    """What came of a history: *broken* is the first promise that did not hold."""

    seed: int
    broken: Broken | None
    trace: tuple[str, ...]
    digest: str
    steps: int
    messages: int
    pushes: int
    entries: Counter[str] = field(default_factory=Counter)
    """(message, subscription) pairs by the state in which they ended."""
    accidents: Counter[str] = field(default_factory=Counter)


class History(Scheduler):
    """The simulated service around the shipped code."""

    def __init__(self, plan: Plan, *, tell: bool = False) -> None:
        super().__init__(plan, tell=tell)
        wiring.logger().setLevel("CRITICAL")
        self.checks = Checks(self)
        self.store = SimStore(self)
        self.queue = FifoQueue(self)
        self.stream = Stream(self)
        self.executions = Executions(self)
        self.endpoints = Endpoints(self)
        self._operators = Operators(self)
        world = world_of(self, self.store)
        self._worlds = [replace(world, memory=Memory()) for _ in range(PROCESSES)]

    def world(self) -> World:
        """Return the world of one of the processes."""
        return self._worlds[self.turns.randrange(PROCESSES)]

    def row(self, key: Key) -> Mapping[str, Any] | None:
        return self.store.rows.get(key)

    def archived(self) -> list[Record]:
        """Return what the archive got, repetitions included."""
        return self.checks.archive.records()

    def committed(self, changes: list[Change]) -> None:
        self.checks.committed(self.baton.current, changes)
        for key, old, new in changes:
            if old != new:
                self.stream.committed((key, old, new))
            if new is not None and "ttl" in new and (old is None or old.get("ttl") != new["ttl"]):
                self._plan_garbage(key, new["ttl"])

    def removed_by_ttl(self, key: Key, old: Row) -> None:
        self.note("!! TTL takes {} {}", key.pk, key.sk)
        self.checks.removed_by_ttl(key, old)

    def run(self) -> Result:
        """Play the plan, then let everything settle; the first broken promise ends the history."""
        entries: Counter[str] = Counter()
        try:
            self._operators.begin()
            self.queue.begin()
            self._play()
            self._settle()
            entries = self.checks.at_the_end()
            self._outlive()
        except Broken as broken:
            self.broken = broken
            self.note("BROKEN {}", broken)
        self.end_workers()
        ledger = self.checks.ledger
        return Result(
            seed=self.plan.seed,
            broken=self.broken,
            trace=tuple(self.trace),
            digest=self.digest,
            steps=self.steps,
            messages=len(ledger.receipts),
            pushes=sum(map(len, ledger.attempts.values())),
            entries=entries,
            accidents=self.accidents,
        )

    def _play(self) -> None:
        for action in self.plan.actions:
            self.play_until(self._operators.planned_at(action))
            self._operators.act(action)
        self.play_until(self.now + self.turns.choice((0, 500, 20_000, 120_000, 400_000)))

    def _settle(self) -> None:
        """Let accidents stop and see that everything comes to its end."""
        self.faulty = False
        self.note("ACCIDENTS STOP")
        for worker in self.workers:
            worker.skew_ms = 0
        began = max(self.now, self.queue.away_until)
        self.horizon = self._settled_by(began)
        while self.workers or self.queue.entries or not self.stream.is_empty or self.checks.quiescence.unsettled():
            if self.now >= self.horizon:  # A request that was under way when accidents stopped may have died since.
                self.horizon = self._settled_by(began)
            if self.now >= self.horizon or self.steps >= STEPS_MAX:
                raise Broken("liveness", f"unsettled after {self.steps} steps: {self.checks.quiescence.unsettled()}")
            self.step()

    def _settled_by(self, began: int) -> int:
        """Return when everything has to be at its end; only the search finds what neither queue nor relay knows of."""
        searched = self.stream.gave_up or self.checks.ledger.uncarried()
        return began + max(self.checks.ledger.retentions) + SETTLING_MS + (SEARCH_MS if searched else 0)

    def _outlive(self) -> None:
        """Play days later: the time to live has taken the rows, and every part finds nothing to do."""
        kept = [(key, row["ttl"] * 1000) for key, row in self.store.rows.items() if "ttl" in row]
        self.now = max((self.now, *(ttl for _, ttl in kept))) + 1
        for key, _ in kept:
            self.store.collect_garbage(key)
        pushes = sum(map(len, self.checks.ledger.attempts.values()))
        self.queue.repeat_late()
        self.executions.repeat_late()
        self.horizon = self.now + SETTLING_MS
        while self.workers:
            self.step()
        if sum(map(len, self.checks.ledger.attempts.values())) != pushes:
            raise Broken("7 life", "a message was pushed after its row had gone")

    def _plan_garbage(self, key: Key, ttl: int) -> None:
        """Draw when the time to live takes a row: at once, up to three days late, or never."""
        if not self.faulty or "ttl" not in self.plan.faults:
            return
        late_ms = self.chance.choice((EXPIRED_LATE_S[0], self.chance.randrange(LATE_MS_MAX), None))
        if late_ms is None:
            return

        def collect() -> None:
            row = self.store.rows.get(key)
            if row is not None and row.get("ttl") == ttl:
                self.accidents["ttl"] += 1
                self.store.collect_garbage(key)

        self.at(ttl * 1000 + late_ms, collect)


def archive_of(seed: int) -> list[Record]:
    """Play *seed* on a topic of its own, ``t<seed>``, and return its archive, repetitions of the stream included.

    Raises what was broken, if anything: such an archive proves nothing.
    """
    history = History(replace(draw_plan(seed), topic=f"t{seed}"))
    result = history.run()
    if result.broken is not None:
        raise result.broken
    return history.archived()
