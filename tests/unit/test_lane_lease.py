"""A worker's hold of a lane: claimed for one attempt, prolonged while outcomes are written, released once."""

import asyncio

import pytest
from tagcast.delivery.lease import LEASE_GRACE_S, LaneLease, Task
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


def test_a_claim_is_prolonged_when_it_would_run_out_and_only_then(fake: FakeWorld) -> None:
    mine = lease(fake)
    asyncio.run(mine.acquire(15))

    asyncio.run(mine.renew(30))
    assert stored(fake).claim == 6
    fake.clock.sleep(0.001)
    asyncio.run(mine.renew(30))

    assert stored(fake).claim == 7
    assert stored(fake).next_attempt_at == mine.held_until == NOW + 1 + (30 + LEASE_GRACE_S) * 1000


@pytest.mark.parametrize("state", [LaneState.PAUSED, LaneState.REMOVED])
def test_a_state_that_an_operator_gave_the_lane_is_taken_over(fake: FakeWorld, state: LaneState) -> None:
    mine = lease(fake)
    fake.store.rows[LANE.key]["state"] = state.value

    asyncio.run(mine.verify())

    assert mine.lane.state is state
    assert mine.check().expect == {"state": state.value, "generation": "g", "claim": 5}


def test_the_tombstone_of_a_removed_lane_stays_and_wakes_nobody(fake: FakeWorld) -> None:
    fake.store.rows[LANE.key]["state"] = "removed"
    mine = lease(fake)
    asyncio.run(mine.verify())

    asyncio.run(mine.finish(3))

    assert (stored(fake).state, stored(fake).wake_at) == (LaneState.REMOVED, None)
    assert "wake_shard" not in fake.store.rows[LANE.key]
