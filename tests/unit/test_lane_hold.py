"""A worker's hold of a lane: claimed for one attempt, prolonged while outcomes are written, released once."""

from __future__ import annotations

import asyncio

import pytest
from tagcast.delivery.lane_hold import CLAIM_GRACE_S, LaneHold, StaleWorkerError
from tagcast.delivery.workflow_task import Task
from tagcast.errors import ConditionLostError
from tagcast.model import LaneState
from tagcast.ports import Put
from tagcast.rows.keys import lane_key
from tagcast.rows.lane import Lane, lane_of, lane_row

from tests.fakes.world import FakeWorld

NOW = 1_800_000_000_000
LANE = Lane("t", "t.1", LaneState.BLOCKED, "g", 3, 5, NOW, NOW)


@pytest.fixture
def fake() -> FakeWorld:
    fake = FakeWorld()
    fake.store.write(Put(LANE.key, lane_row(LANE)))
    return fake


def hold(fake: FakeWorld) -> LaneHold:
    return LaneHold(fake.world, Task("t", "t.1", "g"), fake.clock.monotonic() + 60, seen=LANE)


def stored(fake: FakeWorld) -> Lane:
    return lane_of(fake.store.rows[lane_key("t", "t.1")])


def test_a_claim_counts_and_lasts_for_an_attempt_and_its_grace(fake: FakeWorld) -> None:
    mine = hold(fake)

    asyncio.run(mine.claim(15))

    until = NOW + (15 + CLAIM_GRACE_S) * 1000
    assert (stored(fake).claim, stored(fake).next_attempt_at, stored(fake).wake_at) == (6, until, until)
    assert (stored(fake).appended, stored(fake).generation, stored(fake).state) == (3, "g", LaneState.BLOCKED)
    assert (mine.claimed_until, mine.is_claimed, mine.lane.claim) == (until, True, 6)


def test_a_claim_is_prolonged_when_it_would_run_out_and_only_then(fake: FakeWorld) -> None:
    mine = hold(fake)
    asyncio.run(mine.claim(15))

    asyncio.run(mine.prolong(30))
    assert stored(fake).claim == 6
    fake.clock.sleep(0.001)
    asyncio.run(mine.prolong(30))

    assert stored(fake).claim == 7
    assert stored(fake).next_attempt_at == mine.claimed_until == NOW + 1 + (30 + CLAIM_GRACE_S) * 1000


def test_a_planned_attempt_is_never_put_off_by_the_worker_that_planned_it(fake: FakeWorld) -> None:
    mine = hold(fake)
    asyncio.run(mine.claim(15))
    mine.is_claimed = False

    asyncio.run(mine.prolong(1_000))

    assert stored(fake).claim == 6


def test_a_lane_that_another_claimed_is_neither_claimed_nor_worked_on(fake: FakeWorld) -> None:
    first, second = hold(fake), hold(fake)
    asyncio.run(first.claim(15))

    with pytest.raises(ConditionLostError):
        asyncio.run(second.claim(15))
    with pytest.raises(StaleWorkerError):
        asyncio.run(second.appended())
    assert asyncio.run(first.appended()) == 3


@pytest.mark.parametrize("state", [LaneState.PAUSED, LaneState.REMOVED])
def test_a_state_that_an_operator_gave_the_lane_is_taken_over(fake: FakeWorld, state: LaneState) -> None:
    mine = hold(fake)
    fake.store.rows[LANE.key]["state"] = state.value

    asyncio.run(mine.appended())

    assert mine.lane.state is state
    assert mine.lane.as_held() == {"state": state.value, "generation": "g", "claim": 5}


def test_a_lane_that_is_gone_is_another_s(fake: FakeWorld) -> None:
    del fake.store.rows[LANE.key]

    with pytest.raises(StaleWorkerError):
        asyncio.run(hold(fake).appended())


def test_releasing_plans_the_lane_and_finishing_ends_it_unless_it_grew(fake: FakeWorld) -> None:
    mine = hold(fake)
    asyncio.run(mine.release(NOW + 7))
    assert (stored(fake).next_attempt_at, stored(fake).wake_at, stored(fake).claim) == (NOW + 7, NOW + 7, 5)

    with pytest.raises(ConditionLostError):
        asyncio.run(mine.finish(2))
    asyncio.run(mine.finish(3))

    assert LANE.key not in fake.store.rows


def test_the_tombstone_of_a_removed_lane_stays_and_wakes_nobody(fake: FakeWorld) -> None:
    fake.store.rows[LANE.key]["state"] = "removed"
    mine = hold(fake)
    asyncio.run(mine.appended())

    asyncio.run(mine.finish(3))

    assert (stored(fake).state, stored(fake).wake_at) == (LaneState.REMOVED, None)
    assert "wake_shard" not in fake.store.rows[LANE.key]
