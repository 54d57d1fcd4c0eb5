"""A worker's hold of a lane: claimed for one attempt, prolonged while outcomes are written, released once."""

from __future__ import annotations

import asyncio

import pytest
from tagcast.delivery.lease import LEASE_GRACE_S, LaneLease, StaleWorkerError, Task
from tagcast.errors import ConditionLostError
from tagcast.model import LaneState
from tagcast.ports import Put
from tagcast.pushing.push_slots import PushSlots
from tagcast.rows.keys import lane_key
from tagcast.rows.lane import LANES, Lane

from tests.fakes.world import FakeWorld

NOW = 1_800_000_000_000
LANE = Lane("t", "t.1", LaneState.BLOCKED, "g", 3, 5, NOW, NOW)


@pytest.fixture
def fake() -> FakeWorld:
    fake = FakeWorld()
    fake.store.write(Put(LANE.key, LANES.row_of(LANE)))
    return fake


def lease(fake: FakeWorld) -> LaneLease:
    return LaneLease(fake.world, Task("t", "t.1", "g"), PushSlots(fake.clock), fake.clock.monotonic() + 60, LANE)


def stored(fake: FakeWorld) -> Lane:
    return LANES.value_of(fake.store.rows[lane_key("t", "t.1")])


def test_a_claim_counts_and_lasts_for_an_attempt_and_its_grace(fake: FakeWorld) -> None:
    mine = lease(fake)

    asyncio.run(mine.acquire(15))

    until = NOW + (15 + LEASE_GRACE_S) * 1000
    assert (stored(fake).claim, stored(fake).next_attempt_at, stored(fake).wake_at) == (6, until, until)
    assert (stored(fake).appended, stored(fake).generation, stored(fake).state) == (3, "g", LaneState.BLOCKED)
    assert (mine.held_until, mine.is_held, mine.lane.claim) == (until, True, 6)


def test_a_claim_is_prolonged_when_it_would_run_out_and_only_then(fake: FakeWorld) -> None:
    mine = lease(fake)
    asyncio.run(mine.acquire(15))

    asyncio.run(mine.renew(30))
    assert stored(fake).claim == 6
    fake.clock.sleep(0.001)
    asyncio.run(mine.renew(30))

    assert stored(fake).claim == 7
    assert stored(fake).next_attempt_at == mine.held_until == NOW + 1 + (30 + LEASE_GRACE_S) * 1000


def test_a_planned_attempt_is_never_put_off_by_the_worker_that_planned_it(fake: FakeWorld) -> None:
    mine = lease(fake)
    asyncio.run(mine.acquire(15))
    mine.is_held = False

    asyncio.run(mine.renew(1_000))

    assert stored(fake).claim == 6


def test_a_lane_that_another_claimed_is_neither_claimed_nor_worked_on(fake: FakeWorld) -> None:
    first, second = lease(fake), lease(fake)
    asyncio.run(first.acquire(15))

    with pytest.raises(ConditionLostError):
        asyncio.run(second.acquire(15))
    with pytest.raises(StaleWorkerError):
        asyncio.run(second.verify())
    assert asyncio.run(first.verify()) == 3


@pytest.mark.parametrize("state", [LaneState.PAUSED, LaneState.REMOVED])
def test_a_state_that_an_operator_gave_the_lane_is_taken_over(fake: FakeWorld, state: LaneState) -> None:
    mine = lease(fake)
    fake.store.rows[LANE.key]["state"] = state.value

    asyncio.run(mine.verify())

    assert mine.lane.state is state
    assert mine.check().expect == {"state": state.value, "generation": "g", "claim": 5}


def test_a_lane_that_is_gone_is_another_s(fake: FakeWorld) -> None:
    del fake.store.rows[LANE.key]

    with pytest.raises(StaleWorkerError):
        asyncio.run(lease(fake).verify())


def test_releasing_plans_the_lane_and_finishing_ends_it_unless_it_grew(fake: FakeWorld) -> None:
    mine = lease(fake)
    asyncio.run(mine.reschedule(NOW + 7))
    assert (stored(fake).next_attempt_at, stored(fake).wake_at, stored(fake).claim) == (NOW + 7, NOW + 7, 5)

    with pytest.raises(ConditionLostError):
        asyncio.run(mine.finish(2))
    asyncio.run(mine.finish(3))

    assert LANE.key not in fake.store.rows


def test_the_tombstone_of_a_removed_lane_stays_and_wakes_nobody(fake: FakeWorld) -> None:
    fake.store.rows[LANE.key]["state"] = "removed"
    mine = lease(fake)
    asyncio.run(mine.verify())

    asyncio.run(mine.finish(3))

    assert (stored(fake).state, stored(fake).wake_at) == (LaneState.REMOVED, None)
    assert "wake_shard" not in fake.store.rows[LANE.key]
