"""After a kill nobody works under the claims of lanes: the next start releases them, and keeps to every schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tagcast.delivery.lease import LEASE_GRACE_S, Task
from tagcast.model import LaneState, Strategy
from tagcast.rows.lane import LANES, Lane

from local.sources.sources import CLAIM_S_MAX, released
from tests.fakes.world import FAIL, OK, FakeWorld

LANE = Lane("t", "1.0", LaneState.BLOCKED, "7", appended=1, claim=3, next_attempt_at=50_000, wake_at=50_000)


def test_a_lane_that_may_be_claimed_is_looked_at_at_once() -> None:
    release = released(LANE, now=10_000)

    assert release is not None
    assert release["ExpressionAttributeValues"][":now"] == {"N": "10000"}
    assert release["ExpressionAttributeValues"][":planned"] == {"N": "50000"}


@pytest.mark.parametrize(
    "lane",
    [
        replace(LANE, state=LaneState.PAUSED),
        replace(LANE, next_attempt_at=None),
        replace(LANE, next_attempt_at=10_000),
        replace(LANE, next_attempt_at=10_001 + round(CLAIM_S_MAX * 1000)),
    ],
)
def test_what_sleeps_is_due_or_is_planned_for_later_stays(lane: Lane) -> None:
    assert released(lane, now=10_000) is None


def test_no_claim_is_longer_than_what_is_released() -> None:
    assert CLAIM_S_MAX >= 30 + 10 + 1 + LEASE_GRACE_S


@pytest.mark.parametrize(("attempts_before", "attempts"), [(0, 1), (1, 1)])
def test_a_worker_of_a_released_lane_attempts_what_was_claimed_and_keeps_to_the_schedule_of_what_failed(
    attempts_before: int, attempts: int
) -> None:
    fake = FakeWorld()
    fake.topic()
    subscription = fake.subscribe("A", strategy=Strategy.BACKOFF_RETRY)
    fake.pusher.behaviours["A"] = lambda push: FAIL
    fake.publish("1")
    fake.deliver()
    [(key, row)] = [(key, row) for key, row in fake.store.rows.items() if key.pk.startswith("LANES#")]
    lane = LANES.value_of(row)
    if not attempts_before:
        [due_key] = [key for key in fake.store.rows if key.pk.startswith("DUE#")]
        fake.store.rows[due_key] = {**fake.store.rows[due_key], "attempts": 0}
    release = released(lane, fake.clock.instant)
    assert release is not None
    values = release["ExpressionAttributeValues"]
    now = int(values[":now"]["N"])
    fake.store.rows[key] = {**row, "next_attempt_at": now, "wake_at": now, "planned_for": values[":none"]["S"]}
    fake.pusher.behaviours["A"] = lambda push: OK
    before = len(fake.pusher.pushes)

    answer = fake.redeliver(Task("test1", subscription.subscription_id, lane.generation))

    assert len(fake.pusher.pushes) - before == attempts - attempts_before
    if attempts_before:
        assert answer.wait_until == lane.next_attempt_at, "by its schedule, not at once"
