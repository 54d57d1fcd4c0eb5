"""Functions in their environments: frozen, reused, killed; each with its own wiring."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tagcast_aws import wiring

from tests.aws import limits
from tests.aws.deployment import Deployment
from tests.aws.environments import Environment
from tests.aws.lambdas import Crowded, Ended
from tests.aws.timeline import EPOCH, Timeline


class Stage:
    """The functions of the template, one of them with a handler of the test's."""

    def __init__(self, handler: Callable[[Stage, Any, Any], Any]) -> None:
        self.timeline = Timeline()
        self.functions = Deployment(self.timeline, None, 1).functions
        self.sweep = self.functions.by_id["SweepFunction"]
        self.sweep.handler = lambda event, context: handler(self, event, context)
        self.ended: list[Ended] = []
        self.told: list[tuple[int, Any]] = []

    @property
    def environment(self) -> Environment:
        strand = self.timeline.current
        assert strand is not None
        assert isinstance(strand.host, Environment)
        return strand.host

    def spend_and_tell(self, ms: float, what: str) -> None:
        self.timeline.spend(ms)
        self.tell(what)

    def tell(self, what: Any) -> None:
        self.told.append((self.timeline.now - EPOCH, what))

    def invoke_at(self, ms: int, event: Any = None) -> None:
        self.timeline.at(EPOCH + ms, lambda: self.functions.start(self.sweep, event or {}, self.ended.append))

    def play(self, ms: int = 10_000_000) -> None:
        self.timeline.play_until(EPOCH + ms)


def test_an_environment_is_cold_once_and_keeps_its_own_wiring() -> None:
    def handler(stage: Stage, event: Any, context: Any) -> str:
        stage.tell((stage.environment.name, id(wiring.process().world)))
        return "done"

    stage = Stage(handler)
    stage.invoke_at(0)
    stage.invoke_at(2_000)
    stage.play()

    (first_ms, first), (second_ms, second) = stage.told
    assert first == second
    shortest_ms, longest_ms = limits.LAMBDA_COLD_MS
    assert shortest_ms <= first_ms <= longest_ms + 5
    assert second_ms <= 2_010
    assert [ended.answer for ended in stage.ended] == ["done", "done"]


def test_two_events_at_once_run_in_two_environments() -> None:
    def handler(stage: Stage, event: Any, context: Any) -> None:
        stage.timeline.spend(1_000)
        stage.tell((stage.environment.name, wiring.process().world))

    stage = Stage(handler)
    stage.invoke_at(0)
    stage.invoke_at(0)
    stage.play()

    (_, (first, first_world)), (_, (second, second_world)) = stage.told
    assert first != second
    assert first_world is not second_world


def test_a_timeout_kills_the_environment_and_the_next_event_finds_a_fresh_one() -> None:
    def handler(stage: Stage, event: Any, context: Any) -> None:
        stage.tell((stage.environment.name, context.get_remaining_time_in_millis()))
        stage.timeline.spend(event["ms"])
        stage.tell("went on")

    stage = Stage(handler)
    stage.invoke_at(0, {"ms": 241_000})
    stage.invoke_at(300_000, {"ms": 1})
    stage.play()

    assert [ended.error for ended in stage.ended] == ["Sandbox.Timedout", None]
    first, second, went_on = (what for _, what in stage.told)
    assert went_on == "went on"
    assert first[0] != second[0]
    assert first[1] == 240_000


def test_an_error_of_the_handler_leaves_the_environment_in_use() -> None:
    def handler(stage: Stage, event: Any, context: Any) -> None:
        stage.tell(stage.environment.name)
        raise KeyError("no")

    stage = Stage(handler)
    stage.invoke_at(0)
    stage.invoke_at(2_000)
    stage.play()

    assert [(ended.error, type(ended.fault)) for ended in stage.ended] == [("Unhandled", KeyError)] * 2
    assert len({name for _, name in stage.told}) == 1


def test_what_outlives_its_invocation_runs_in_a_later_one_and_is_known_by_its_origin() -> None:
    def handler(stage: Stage, event: Any, context: Any) -> None:
        environment = stage.environment

        def late() -> None:
            stage.timeline.spend(100)
            origin, present = environment.origin(), environment.invocation
            assert origin is not None
            assert present is not None
            stage.tell((origin.event["n"], present.event["n"]))

        if event["n"] == 1:
            stage.timeline.start("thread", environment, late)
        stage.timeline.spend(10)

    stage = Stage(handler)
    stage.invoke_at(0, {"n": 1})
    stage.invoke_at(3_600_000, {"n": 2})
    stage.play()

    [(at, told)] = stage.told
    assert told == (1, 2)
    assert at >= 3_600_000


def test_an_answer_above_six_megabytes_is_an_error() -> None:
    stage = Stage(lambda stage, event, context: "x" * 6_500_000)
    stage.invoke_at(0)
    stage.play()

    assert [ended.error for ended in stage.ended] == ["Function.ResponseSizeTooLarge"]


def test_functions_are_throttled_when_there_is_no_capacity() -> None:
    stage = Stage(lambda stage, event, context: None)
    stage.functions.weather = Crowded("sweep")
    stage.invoke_at(0)
    stage.play()

    assert [ended.error for ended in stage.ended] == ["TooManyRequestsException"]


@pytest.mark.parametrize("count", [1, 7])
def test_a_crash_ends_every_strand_of_the_process(count: int) -> None:
    def handler(stage: Stage, event: Any, context: Any) -> None:
        for _ in range(count):
            stage.timeline.start("thread", stage.environment, partial(stage.spend_and_tell, 50, "late"))
        stage.timeline.spend(10)
        stage.functions.crash(stage.environment)

    stage = Stage(handler)
    stage.invoke_at(0)
    stage.play()

    assert [ended.error for ended in stage.ended] == ["Runtime.ExitError"]
    assert stage.told == []
