"""What somebody else wrote between a read and a write is never overwritten."""

import pytest
from tagcast.model import EntryState, LaneState, Outcome, Push, Strategy
from tagcast.operating import lanes
from tagcast.registry import subscriptions
from tagcast.rows.lane import LANES, Lane

from tests.fakes.raced_store import RacedStore
from tests.fakes.world import FAIL, OK, FakeWorld
from tests.unit.worlds import entry, failing


@pytest.fixture
def store() -> RacedStore:
    return RacedStore()


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    failing(fake, "A")
    return fake


def lane(fake: FakeWorld) -> Lane:
    """Return the lane of A, also behind its subscription."""
    [key] = [key for key in fake.store.rows if key.pk == "LANES#test1"]
    return LANES.value_of(fake.store.rows[key])


def test_a_head_that_failed_once_more_while_it_was_skipped_keeps_that_attempt(
    fake: FakeWorld, store: RacedStore
) -> None:
    [message_id] = fake.first_round("1")
    [task] = fake.workflow.tasks
    fake.clock.sleep(15)
    store.once_before("DUE#", lambda: fake.redeliver(task))

    lanes.skip_head(fake.world, "test1", "A", "poison")

    cancelled = entry(fake, message_id)
    assert (cancelled.state, cancelled.attempts) == (EntryState.CANCELLED, 2)


def test_a_worker_that_loses_its_lane_while_a_window_fails_writes_none_of_the_failures(fake: FakeWorld) -> None:
    fake.subscribe("A", strategy=Strategy.EXPONENTIAL_DECAY_RETRY)
    fake.first_round("1", "2", "3", "4")
    [task] = fake.workflow.tasks
    fake.pusher.behaviours["A"] = lambda push: OK if push.message.draft.body == b"1" else FAIL

    def look(push: Push) -> None:
        if push.message.draft.body == b"4":
            lanes.pause(fake.world, "test1", "A")

    fake.pusher.before_push = look
    fake.clock.sleep(1)
    fake.redeliver(task)

    dues = lanes.backlog(fake.world, "test1", "A", 10, None).items
    assert [(due.attempts, due.last_outcome) for due in dues] == [(0, None)] * 3
    assert lane(fake).state is LaneState.PAUSED


def test_a_lane_that_was_suspended_while_its_subscription_went_is_removed_all_the_same(
    fake: FakeWorld, store: RacedStore
) -> None:
    fake.first_round("1")
    [task] = fake.workflow.tasks
    fake.pusher.behaviours["A"] = lambda push: Outcome(False, "http 410", gone=True)
    fake.clock.sleep(15)
    claims: list[int] = []

    def meanwhile() -> None:
        fake.redeliver(task)
        claims.append(lane(fake).claim)

    store.once_before("TOPIC#", meanwhile)
    subscriptions.delete_subscription(fake.world, "test1", "A")

    assert (lane(fake).state, lane(fake).claim) == (LaneState.REMOVED, claims[0])


def test_a_lane_that_was_blocked_while_its_subscription_went_is_removed_and_its_backlog_cancelled(
    fake: FakeWorld, store: RacedStore
) -> None:
    [message_id] = fake.publish("1")
    store.once_before("TOPIC#", fake.deliver)

    subscriptions.delete_subscription(fake.world, "test1", "A")

    assert lane(fake).state is LaneState.REMOVED
    fake.run_workflows(until=fake.clock.instant + 60_000)
    cancelled = entry(fake, message_id)
    assert (cancelled.state, cancelled.attempts) == (EntryState.CANCELLED, 1)


def test_an_overdue_lane_that_was_restarted_while_the_sweep_looked_at_it_is_restarted_once(
    fake: FakeWorld, store: RacedStore
) -> None:
    fake.first_round("1")
    fake.workflow.tasks.clear()
    fake.clock.sleep(60)
    store.once_before("LANES#", lambda: fake.sweep())

    assert fake.sweep().restarted == 0
    assert [task.generation for task in fake.workflow.tasks] == [lane(fake).generation]


def test_a_filter_that_changed_while_its_subscription_was_replaced_counts_every_version(
    fake: FakeWorld, store: RacedStore
) -> None:
    store.once_before("TOPIC#", lambda: fake.subscribe("A", "pear"))

    changed = fake.subscribe("A", "apple")

    assert changed.version == 3
    kept = subscriptions.filter_versions(fake.world, "test1", "A", 9, None).items
    assert [(each.version, each.filter) for each in kept] == [
        (3, {"kind": "tags", "tags": ["apple"]}),
        (2, {"kind": "tags", "tags": ["pear"]}),
        (1, None),
    ]
