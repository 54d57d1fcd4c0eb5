"""After a kill nobody works under the claims of lanes: the next start releases them, and keeps to every schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tagcast.delivery.lease import Task
from tagcast.model import LaneState, Strategy
from tagcast.rows import lane_transitions
from tagcast.rows.lane import LANES, Lane

from local.sources.sources import release_lane
from tests.fakes.world import FAIL, OK, FakeWorld

LANE = Lane("t", "1.0", LaneState.BLOCKED, "7", 1, 3, next_attempt_at=50_000, wake_at=50_000, is_claimed=True)


def test_a_claimed_lane_is_looked_at_at_once() -> None:
    release = release_lane(LANE, now=10_000, generation="8")

    assert release is not None
    assert (release.changes["next_attempt_at"], release.changes["wake_at"]) == (10_000, 10_000)
    assert "is_claimed" in release.remove
    assert release.expect == {"state": "blocked", "generation": "7", "claim": 3}


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

    fake.redeliver(Task("test1", subscription.subscription_id, claimed.generation))

    assert len(fake.pusher.pushes) - before == 1
