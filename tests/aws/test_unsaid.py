"""What AWS does not say is drawn from wide ranges, and the simulated AWS behaves by it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.aws import limits
from tests.aws.histories.history import History
from tests.aws.histories.plan import draw_plan
from tests.aws.loop import VirtualLoop
from tests.aws.queue_source import Connections
from tests.aws.stage import Stage
from tests.aws.strands import Host
from tests.aws.timeline import EPOCH, Timeline
from tests.aws.unsaid import Unsaid, draw_unsaid

DRAWN = [draw_unsaid(seed) for seed in range(400)]
CUT = 10
"""A history in which a process pushes once to a connection that was closed while it was frozen."""


@pytest.mark.parametrize(
    ("bounds", "of"),
    [
        (limits.STREAM_FIRST_PAUSE_MS, lambda each: each.first_pause_ms),
        (limits.STREAM_LONGEST_PAUSE_MS, lambda each: each.longest_pause_ms),
        (limits.QUEUE_GROWTH_A_MINUTE, lambda each: each.growth_a_minute),
        (limits.LAMBDA_SLEEPS_S, lambda each: each.sleeps_s),
    ],
)
def test_histories_have_both_ends_of_a_range(bounds: tuple[float, float], of: Callable[[Unsaid], float]) -> None:
    low, high = bounds
    drawn = sorted(map(of, DRAWN))
    assert low <= drawn[0] < 1.1 * low
    assert high / 1.1 < drawn[-1] <= high
    assert drawn[len(drawn) // 2] == pytest.approx((low * high) ** 0.5, rel=0.6), "small and large alike"


def test_histories_have_clocks_that_stand_and_connections_that_are_cut() -> None:
    assert {(each.clock_stands, each.cuts_silently) for each in DRAWN} == {
        (stands, cuts) for stands in (False, True) for cuts in (False, True)
    }


def test_a_history_plays_what_was_drawn_for_it() -> None:
    history = History(draw_plan(CUT), tell=True)
    assert history.deployment.box.unsaid == draw_unsaid(CUT)
    result = history.run()
    assert result.broken is None
    assert sum("nobody told the process" in line for line in result.trace) == 1


@pytest.mark.parametrize(("first_ms", "longest_ms"), [(10, 1_000), (5_000, 600_000)])
def test_a_stream_waits_between_repetitions_as_long_as_it_was_drawn(first_ms: float, longest_ms: float) -> None:
    def fail(stage: Stage, event: Any) -> Any:
        stage.tell("tried")
        return {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["dynamodb"]["SequenceNumber"]}]}

    unsaid = Unsaid(first_pause_ms=first_ms, longest_pause_ms=longest_ms)
    stage = Stage("RelayFunction", fail, unsaid=unsaid)
    stage.put("MSG#1")
    stage.play(3_000_000)

    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(stage.told)]
    assert 0.5 * first_ms <= gaps[0] < first_ms + 1_500
    assert 0.5 * longest_ms <= max(gaps) < longest_ms + 1_500


def test_a_source_gains_connections_only_as_fast_as_it_may() -> None:
    timeline = Timeline()
    connections = Connections(timeline, 12, limits.QUEUE_GROWTH_A_MINUTE[0])
    grown = 0
    for _ in range(1_000):
        grown += connections.grow()
        timeline.play_until(timeline.now + 1)
    assert grown == 5 - 1, "one each 200 ms, from the first 200 on"
    timeline.play_until(timeline.now + 60_000)
    while connections.grow():
        timeline.play_until(timeline.now + 200)
    assert connections.count == 12


def looks(unsaid: Unsaid, *at_s: int) -> list[tuple[str, float]]:
    """The environment and what its clock measured, for invocations at these seconds."""

    def handle(stage: Stage, event: Any) -> None:
        stage.tell((stage.environment.name, stage.timeline.measured_by(stage.environment)))

    stage = Stage("ManageFunction", handle, unsaid=unsaid)
    for second in at_s:
        stage.invoke_at(1_000 * second)
    return stage.play(1_000 * at_s[-1] + 10_000)


def test_what_a_frozen_process_measures_stands_still_where_it_was_drawn_so() -> None:
    (_, first), (_, goes_on) = looks(Unsaid(), 0, 600)
    assert goes_on - first > 590
    (_, first), (_, stands) = looks(Unsaid(clock_stands=True), 0, 600)
    assert 0 <= stands - first < 1


def test_a_loop_and_its_timers_follow_the_clock_of_their_process() -> None:
    timeline, host = Timeline(), Host("p")
    loop = VirtualLoop(timeline, host, network=None)  # type: ignore[arg-type]
    host.stood_us = 7_000_000
    timeline.play_until(EPOCH + 10_000)
    assert loop.time() == 3.0
    assert loop._micros(loop.time() + 1) == timeline.micros + 1_000_000
    loop.close()


def test_an_environment_that_slept_for_longer_than_was_drawn_is_gone() -> None:
    (first, _), (second, _), (third, _) = looks(Unsaid(sleeps_s=60), 0, 30, 130)
    assert first == second != third
