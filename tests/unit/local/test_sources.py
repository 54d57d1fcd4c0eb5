"""The sources: at the start open lanes are told of and claims of a killed process released; under load they say so."""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tagcast.delivery.lease import Task
from tagcast.model import LaneState, Strategy
from tagcast.rows import lane_transitions
from tagcast.rows.keys import lane_key
from tagcast.rows.lane import LANES, Lane, starts_workflow

from local.sources.sources import REPORTED_EVERY_S, WAITING_MAX, Overload, Sources, release_lane
from local.template.translated import SourceSpec
from tests.fakes.memory_store import MemoryStore
from tests.fakes.world import FAIL, OK, FakeWorld

TOLD = f"overloaded: {WAITING_MAX + 1} events wait for a worker; the sweep is delayed"
NAMES = ("t", "1.0")
LANE = Lane(*NAMES, LaneState.BLOCKED, "7", 1, 3, next_attempt_at=50_000, wake_at=50_000, is_claimed=True)
"""Nobody works under the claims of lanes after a kill: the next start releases them, and keeps to every schedule."""


@pytest.mark.parametrize(("function", "gets_lanes"), [("RelayFunction", True), ("ArchiveFunction", False)])
def test_open_lanes_are_told_again_to_the_function_that_starts_workflows_alone(
    tmp_path: Path, function: str, gets_lanes: bool
) -> None:
    anything = SimpleNamespace(
        waiting=0, functions={function: SimpleNamespace(name=function)}, positions=tmp_path,
        calls=lambda _: SimpleNamespace(call=print),
        outputs={"ArnSource": "arn:aws:dynamodb:us-east-1:1:table/lanes/stream/1"},
    )  # fmt: skip
    parts: Any = anything
    sources = Sources(parts, asyncio.new_event_loop(), 1.0, tmp_path, parts, parts)
    spec = SourceSpec("Source", function, {"StartingPosition": "TRIM_HORIZON"})

    made = sources._stream_source(spec, parts, parts)

    assert (made.first is not None) is gets_lanes


def test_each_overload_is_told_at_once_and_again_after_a_minute_however_soon_it_follows() -> None:
    said: list[str] = []
    waiting = [WAITING_MAX + 1]
    overload = Overload(lambda: waiting[0], said.append)

    assert overload.puts_off(0.0)
    assert overload.puts_off(REPORTED_EVERY_S - 1)
    assert said == [TOLD]
    assert overload.puts_off(REPORTED_EVERY_S)
    waiting[0] = WAITING_MAX
    assert not overload.puts_off(REPORTED_EVERY_S + 1)
    assert not overload.puts_off(REPORTED_EVERY_S + 2)
    waiting[0] = WAITING_MAX + 1
    assert overload.puts_off(REPORTED_EVERY_S + 3)
    assert said == [TOLD, TOLD, "no longer overloaded", TOLD]


@pytest.mark.parametrize("state", [LaneState.BLOCKED, LaneState.RETRYING])
def test_a_claimed_lane_retries_all_at_once_by_a_workflow_of_its_own(state: LaneState) -> None:
    """The first round that claimed it would start its workflow, so the relay starts none for its old generation."""
    claimed, store = replace(LANE, state=state), MemoryStore()
    store.write(LANES.put(claimed, *NAMES))
    before = dict(store.rows[lane_key(*NAMES)])
    release = release_lane(claimed, now=10_000, generation="8")
    assert release is not None
    store.write(release)

    after = store.rows[lane_key(*NAMES)]
    assert starts_workflow(before, after)
    lane = LANES.value_of(after)
    assert (lane.is_claimed, lane.next_attempt_at, lane.wake_at, lane.retry_all_at) == (False, *3 * (10_000,))
    assert release.expect == {"state": state, "generation": "7", "claim": 3, "next_attempt_at": LANE.next_attempt_at}


@pytest.mark.parametrize(
    "lane", [replace(LANE, state=LaneState.PAUSED), replace(LANE, is_claimed=False, planned_for="1")]
)
def test_what_sleeps_or_is_planned_stays(lane: Lane) -> None:
    assert release_lane(lane, now=10_000, generation="8") is None


def test_what_waits_each_for_itself_is_retried() -> None:
    release = release_lane(replace(LANE, state=LaneState.RETRYING, is_claimed=False), now=10_000, generation="8")

    assert release is not None
    assert {release.changes[name] for name in ("next_attempt_at", "retry_all_at", "wake_at")} == {10_000}
    assert release.changes["generation"] == "8"


def test_a_worker_of_a_released_lane_attempts_what_was_claimed(fake: FakeWorld) -> None:
    subscription = fake.subscribe("A", strategy=Strategy.BACKOFF_RETRY)
    fake.pusher.behaviours["A"] = lambda push: FAIL
    fake.publish("1")
    fake.deliver()
    [(key, row)] = [(key, row) for key, row in fake.store.rows.items() if key.pk.startswith("LANES#")]
    _, claim = lane_transitions.claim(LANES.value_of(row), fake.clock.instant + 45_000)
    fake.store.write(claim)
    claimed = LANES.value_of(fake.store.rows[key])
    release = release_lane(claimed, fake.clock.instant, "8")
    assert release is not None
    fake.store.write(release)
    fake.pusher.behaviours["A"] = lambda push: OK
    before = len(fake.pusher.pushes)

    fake.redeliver(Task("test1", subscription.subscription_id, "8"))

    assert len(fake.pusher.pushes) - before == 1
