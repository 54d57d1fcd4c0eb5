"""The handlers of a deployment in one process, and the lines of EMF that each invocation writes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from tagcast.ports import World
from tagcast_aws import wiring
from tagcast_aws.runtime.telemetry import PowertoolsTelemetry, by_subscription

from functions.fan_out import app as fan_out
from functions.retry import app as retry
from functions.sweep import app as sweep
from tests.cloudwatch.alarms import Datum, data_in
from tests.fakes.log import Log
from tests.fakes.queue_records import batch_of
from tests.fakes.world import FakeWorld

STACK = "tagcast"


@dataclass
class Deployed:
    """A world in memory behind the shipped entry points; what they tell is kept as CloudWatch keeps it."""

    capsys: pytest.CaptureFixture[str]
    watched: tuple[str, ...] = ()
    fakes: FakeWorld = field(default_factory=FakeWorld)
    data: list[Datum] = field(default_factory=list)

    def __post_init__(self) -> None:
        telemetry = PowertoolsTelemetry(
            Log().logger, wiring.metrics(), self.fakes.clock, by_subscription(), self.watched
        )
        self.world: World = replace(self.fakes.world, telemetry=telemetry)

    def fan_out(self) -> None:
        """Let everything in the queue have its first round."""
        entries, self.fakes.queue.entries = self.fakes.queue.entries, []
        for start in range(0, len(entries), 10):
            self.fan_out_of(batch_of(entries[start : start + 10]))

    def fan_out_of(self, event: dict[str, Any]) -> None:
        """Let a batch of the queue have its first round."""
        self._invoked(fan_out, event)

    def retry(self) -> None:
        """Let every lane that has an execution be worked on once."""
        tasks, self.fakes.workflow.tasks = self.fakes.workflow.tasks, []
        for task in tasks:
            named = {"topic": task.topic, "subscription_id": task.subscription_id, "generation": task.generation}
            self._invoked(retry, {**named, "rounds": 0})

    def sweep(self) -> None:
        self._invoked(sweep, {})

    def pass_by(self, seconds: float) -> None:
        self.fakes.clock.sleep(seconds)

    @property
    def now_s(self) -> float:
        return self.fakes.clock.instant / 1000

    def values(self, name: str, **dimensions: str) -> list[float]:
        """What was told of one metric so far."""
        wanted = frozenset({"service": STACK, **dimensions}.items())
        return [each.value for each in self.data if (each.name, each.dimensions) == (name, wanted)]

    def _invoked(self, function: Any, event: dict[str, Any]) -> None:
        at_s = self.now_s
        context = SimpleNamespace(function_name=function.__name__, get_remaining_time_in_millis=lambda: 120_000)
        self.capsys.readouterr()
        function.lambda_handler(event, context)
        for line in self.capsys.readouterr().out.splitlines():
            if "_aws" in line:
                self.data += data_in(line, at_s)
