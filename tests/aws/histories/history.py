"""One history on the box: the deployed service, its producers and operators, and everything that goes wrong."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from tagcast.ports import Key, Table, World
from tagcast_aws.store.attributes import to_row

from tests.aws.administrator import administrator
from tests.aws.deployment import Deployment
from tests.aws.environments import Environment
from tests.aws.histories.accidents import CallAccidents
from tests.aws.histories.box_checks import BoxChecks
from tests.aws.histories.outside import Outside
from tests.aws.histories.plan import AwsPlan
from tests.aws.histories.witness import Witness
from tests.aws.quiet import quiet
from tests.aws.timeline import Timeline
from tests.aws.unsaid import draw_unsaid
from tests.simulation.history import Result
from tests.simulation.ledger import Broken
from tests.simulation.scheduler import Calls

SETTLING_MS, SEARCH_MS = 5_400_000, 6 * 3_600_000
STEPS_MAX = 400_000


class History:
    """The deployed service with the outside world around it."""

    def __init__(self, plan: AwsPlan, *, tell: bool = False) -> None:
        self.plan = plan
        self.timeline = Timeline()
        self.began = self.timeline.now
        self.turns = Random(f"turns {plan.seed}")
        self.chance = Random(f"chance {plan.seed}")
        self.broken: Broken | None = None
        self.faulty = True
        self.accidents: Counter[str] = Counter()
        self.skewed: set[str] = set()
        self.trace: list[str] = []
        self.calls = Calls()
        self._tell = tell
        self._told = hashlib.sha256()
        self._faults_left = plan.faults_max
        self._world: World | None = None
        unsaid = draw_unsaid(plan.seed)
        if plan.faults <= {"endpoint", "ttl"}:  # Then every attempt is as good as its receiver, say the checks.
            unsaid = replace(unsaid, cuts_silently=False)
        self.deployment = Deployment(self.timeline, CallAccidents(self), plan.seed, plan.shards, unsaid=unsaid)
        self.checks = BoxChecks(self)
        self.outside = Outside(self)
        self.witness = Witness(self)
        self.witness.connect()

    # What the checks look at.

    @property
    def now(self) -> int:
        return self.timeline.now

    @property
    def steps(self) -> int:
        return self.timeline.steps

    @property
    def environment(self) -> Environment | None:
        """The environment that moves now."""
        strand = self.timeline.current
        return strand.host if strand is not None and isinstance(strand.host, Environment) else None

    def row(self, key: Key) -> Mapping[str, Any] | None:
        table = self.deployment.tables["RegistryTable" if key.table is Table.REGISTRY else "MessagesTable"]
        found = table.get((key.pk, key.sk))
        return None if found is None else to_row(found.item)

    def world(self) -> World:
        """Return the deployed world as the operators' own process would have it: every call at once, none fails."""
        if self._world is None:
            self._world = administrator(self.deployment)
        return self._world

    # What is told.

    def note(self, text: str, *values: object) -> None:
        if self._tell:
            line = f"{(self.timeline.micros - self.began * 1000) / 1000:>14.3f} {text.format(*values)}"
            self.trace.append(line)
            self._told.update(line.encode())

    def draws(self, fault: str, rate: float) -> bool:
        """Say whether *fault* happens now."""
        if not self.faulty or fault not in self.plan.faults or self._faults_left <= 0:
            return False
        if self.chance.random() >= rate:
            return False
        self._faults_left -= 1
        self.accidents[fault] += 1
        return True

    # Playing.

    def run(self) -> Result:
        """Play the plan, then let everything settle; the first broken promise ends the history."""
        before = random.getstate()
        random.seed(f"history {self.plan.seed}")  # The shipped archive adapter and aiohttp roll the machine's dice.
        entries: Counter[str] = Counter()
        try:
            with quiet():
                entries = self._play()
        except Broken as broken:
            self.broken = self.broken or broken
        finally:
            random.setstate(before)
        if self.broken is not None:
            self.note("BROKEN {}", self.broken)
        self.deployment.functions.end()
        ledger = self.checks.ledger
        return Result(
            seed=self.plan.seed,
            broken=self.broken,
            trace=tuple(self.trace),
            digest=self._told.hexdigest(),
            steps=self.steps,
            messages=len(ledger.receipts),
            pushes=sum(map(len, ledger.attempts.values())),
            entries=entries,
            accidents=self.accidents,
        )

    def _play(self) -> Counter[str]:
        self.faulty = False
        self.outside.begin()
        self.faulty = True
        for action in self.plan.actions:
            self.play_until(self.outside.planned_at(action))
            self.outside.act(action)
        self.play_until(self.now + self.turns.choice((500, 20_000, 120_000, 400_000)))
        for outage in self.plan.outages:
            self.play_until(self.began + outage.ended_ms)
        self._settle()
        entries = self.checks.at_the_end()
        if self.broken is not None:
            raise self.broken
        return entries

    def play_until(self, instant: int) -> None:
        self.timeline.play_until(instant, lambda: self.broken is None and self.steps < STEPS_MAX)
        if self.broken is not None:
            raise self.broken

    def _settle(self) -> None:
        """Let accidents stop and see that everything comes to its end."""
        self.faulty = False
        self.note("ACCIDENTS STOP")
        for environment in self.deployment.functions.alive:
            environment.skew_ms = 0
        until = self.now + max(self.checks.ledger.retentions, default=0) + SETTLING_MS
        if self.checks.ledger.uncarried():  # Only the search finds what a request left whose process died.
            until += SEARCH_MS
        until += SEARCH_MS * self.outside.members.settle()
        while self._is_busy():
            if self.now >= until or self.steps >= STEPS_MAX:
                raise Broken("liveness", f"unsettled after {self.steps} steps: {self._busy_with()}")
            self.outside.members.drain()
            self.play_until(min(until, self.now + 10_000))

    def _is_busy(self) -> bool:
        return bool(self._busy_with())

    def _busy_with(self) -> str:
        deployment = self.deployment
        if deployment.functions.running:
            return f"{deployment.functions.running} invocations"
        if any(True for _ in deployment.queues["DeliveryQueue"].messages()):
            return "messages in the queue"
        if not all(source.is_idle for source in deployment.stream_sources):
            return "records in the streams"
        return self.checks.quiescence.unsettled()
