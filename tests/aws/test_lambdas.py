"""Functions in their environments: frozen, reused, killed; each with its own wiring."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tagcast_aws import wiring

from tests.aws import limits
from tests.aws.stage import Stage

staged = partial(Stage, "ManageFunction")


def test_an_environment_is_cold_once_and_keeps_its_own_wiring() -> None:
    def handler(stage: Stage, event: Any) -> str:
        stage.tell((stage.environment.name, id(wiring.process().world)))
        return "done"

    stage = staged(handler)
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
    def handler(stage: Stage, event: Any) -> None:
        stage.timeline.spend(1_000)
        stage.tell((stage.environment.name, wiring.process().world))

    stage = staged(handler)
    stage.invoke_at(0)
    stage.invoke_at(0)
    stage.play()

    (_, (first, first_world)), (_, (second, second_world)) = stage.told
    assert first != second
    assert first_world is not second_world


def test_a_timeout_kills_the_environment_and_the_next_event_finds_a_fresh_one() -> None:
    def handler(stage: Stage, event: Any) -> None:
        stage.tell((stage.environment.name, stage.context.get_remaining_time_in_millis()))
        stage.timeline.spend(event["ms"])
        stage.tell("went on")

    stage = staged(handler)
    timeout_ms = stage.function.timeout_s * 1_000
    stage.invoke_at(0, {"ms": timeout_ms + 1_000})
    stage.invoke_at(300_000, {"ms": 1})
    stage.play()

    assert [ended.error for ended in stage.ended] == ["Sandbox.Timedout", None]
    first, second, went_on = (what for _, what in stage.told)
    assert went_on == "went on"
    assert first[0] != second[0]
    assert first[1] == timeout_ms


def test_an_error_of_the_handler_leaves_the_environment_in_use() -> None:
    def handler(stage: Stage, event: Any) -> None:
        stage.tell(stage.environment.name)
        raise KeyError("no")

    stage = staged(handler)
    stage.invoke_at(0)
    stage.invoke_at(2_000)
    stage.play()

    assert [(ended.error, type(ended.fault)) for ended in stage.ended] == [("Unhandled", KeyError)] * 2
    assert len({name for _, name in stage.told}) == 1


def test_what_outlives_its_invocation_runs_in_a_later_one_and_is_known_by_its_origin() -> None:
    def handler(stage: Stage, event: Any) -> None:
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

    stage = staged(handler)
    stage.invoke_at(0, {"n": 1})
    stage.invoke_at(3_600_000, {"n": 2})
    stage.play()

    [(at, told)] = stage.told
    assert told == (1, 2)
    assert at >= 3_600_000


def test_an_answer_above_six_megabytes_is_an_error() -> None:
    stage = staged(lambda stage, event: "x" * 6_500_000)
    stage.invoke_at(0)
    stage.play()

    assert [ended.error for ended in stage.ended] == ["Function.ResponseSizeTooLarge"]


@pytest.mark.parametrize("count", [1, 7])
def test_a_crash_ends_every_strand_of_the_process(count: int) -> None:
    def handler(stage: Stage, event: Any) -> None:
        for _ in range(count):
            stage.timeline.start("thread", stage.environment, partial(stage.spend_and_tell, 50, "late"))
        stage.timeline.spend(10)
        stage.functions.crash(stage.environment)

    stage = staged(handler)
    stage.invoke_at(0)
    stage.play()

    assert [ended.error for ended in stage.ended] == ["Runtime.ExitError"]
    assert stage.told == []
