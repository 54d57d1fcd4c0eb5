"""What goes wrong in a history, drawn from its seed: calls of AWS, environments, sources."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tests.aws.box import ADMINISTRATOR
from tests.aws.calls import Call
from tests.aws.environments import Environment, Invocation
from tests.aws.faults import Kind
from tests.aws.histories.called import called
from tests.aws.histories.plan import KINDS, Outage
from tests.aws.lambdas import Ended, Function, Weather

if TYPE_CHECKING:
    from tests.aws.histories.history import History


class CallAccidents:
    """The accidents of calls; it sees every request that reaches AWS before it has its effect."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._kinds = [fault for fault in KINDS if fault in history.plan.faults]

    def strike(self, call: Call) -> Kind | None:
        history = self._history
        if call.caller.role == ADMINISTRATOR:
            return None
        environment = history.environment
        history.witness.calling(call, environment)
        history.calls.called(called(call))
        outage = self._outage(call)
        if outage is not None:
            history.accidents["outage"] += 1
            return outage.kind
        rate = history.plan.rate
        if environment is not None:
            if history.draws("crash", rate):
                history.note("{} !! crash", environment.name)
                history.deployment.functions.crash(environment)
            if history.draws("stall", rate / 5):
                history.witness.stall(environment)
        for fault in self._kinds:
            if history.draws(fault, rate):
                history.note("{} !! {} {}: {}", call.caller.name, call.service, call.operation, fault)
                return KINDS[fault]
        return None

    def spoiled(self, call: Call, count: int) -> Collection[int]:
        history = self._history
        if call.caller.role == ADMINISTRATOR or not history.draws("spoiled", 3 * history.plan.rate):
            return ()
        places = [place for place in range(count) if history.chance.random() < 0.4]
        history.note("{} !! {}: {} of {} spoiled", call.caller.name, call.operation, places, count)
        return places

    def _outage(self, call: Call) -> Outage | None:
        history = self._history
        since_ms = call.now - history.began
        for outage in history.plan.outages:
            if history.faulty and outage.service == call.service and outage.began_ms <= since_ms < outage.ended_ms:
                return outage
        return None


class HistoryWeather(Weather):
    """The accidents of environments."""

    def __init__(self, history: History) -> None:
        self._history = history

    def begins(self, invocation: Invocation) -> None:
        history = self._history
        if history.draws("timeout", 0.04):
            ms = history.chance.choice((3, 40, 300, 2_000, 8_000, 20_000))
            history.timeline.after(ms, lambda: history.deployment.functions.cut(invocation, "Sandbox.Timedout"))
        if history.faulty and "skew" in history.plan.faults and invocation.environment.name not in history.skewed:
            history.skewed.add(invocation.environment.name)
            invocation.environment.skew_ms = history.chance.choice((0, 0, -300_000, -1_000, -1, 1, 1_000, 300_000))
            history.accidents["skew"] += invocation.environment.skew_ms != 0
        history.witness.invoked(invocation)

    def ended(self, ended: Ended) -> None:
        self._history.witness.ended(ended)

    def reclaims(self, environment: Environment) -> bool:
        return self._history.draws("reclaimed", 0.2)

    def throttles(self, function: Function) -> bool:
        return self._history.draws("refused", 0.02)
