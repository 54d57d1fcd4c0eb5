"""How deliveries end: at their instant, with everything that is known of their attempts, and once."""

from dataclasses import replace
from typing import Any

import pytest
from tagcast.delivery.lease import Task, continue_as_new
from tagcast.model import Entry, EntryState, Outcome
from tagcast.operating import lanes, messages
from tagcast.ports import Table
from tagcast.registry import subscriptions
from tagcast.registry.directory import Directories
from tagcast.repairing.expiry import LEFT_S
from tagcast.rows.keys import lane_key, message_key, topic_key
from tagcast.rows.message import MESSAGES

from tests.fakes.calls import Before
from tests.fakes.raced_store import elsewhere
from tests.fakes.world import FAIL, OK, FakeWorld
from tests.unit.worlds import blocked, entry

GONE = Outcome(False, "http 410", gone=True)


@pytest.fixture
def fake() -> FakeWorld:
    fake = FakeWorld()
    fake.topic(retention_s=60)
    return fake


def pending(fake: FakeWorld) -> list[str]:
    return [due.message_id for due in lanes.backlog(fake.world, "test1", "A", 100, None).items]


def test_what_the_sweep_expires_in_a_sleeping_backlog_keeps_its_attempts(fake: FakeWorld) -> None:
    [message_id] = blocked(fake, "1")
    failed_at = fake.clock.instant
    lanes.pause(fake.world, "test1", "A")
    fake.sweep()

    fake.clock.sleep(60)
    fake.sweep()

    ended = Entry(EntryState.EXPIRED, 1, failed_at, "http 500", filter_version=1)
    assert entry(fake, message_id) == ended
    assert pending(fake) == []


def test_a_due_row_whose_message_is_gone_is_dropped_by_the_sweep(fake: FakeWorld) -> None:
    blocked(fake, "1")
    lanes.pause(fake.world, "test1", "A")
    for key in [key for key in fake.store.rows if key.pk.startswith(("MSG#", "RETAINED#"))]:
        del fake.store.rows[key]

    fake.clock.sleep(60)

    assert fake.sweep().expired <= 1
    assert not [key for key in fake.store.rows if key.pk.startswith("DUE#")]


def test_a_message_that_nobody_drives_is_expired_by_the_sweep_when_its_lane_had_time_to(fake: FakeWorld) -> None:
    [message_id] = blocked(fake, "1")
    fake.workflow.tasks.clear()
    fake.workflow.broken = True
    fake.clock.sleep(59.999)
    assert messages.message_view(fake.world, "test1", message_id).state == "retained"
    fake.clock.sleep(LEFT_S)
    assert fake.sweep().expired == 0
    assert messages.message_view(fake.world, "test1", message_id).state == "expired"

    fake.clock.sleep(0.001)

    assert fake.sweep().expired == 1
    assert messages.message_view(fake.world, "test1", message_id).state == "deleted"
    assert entry(fake, message_id).state is EntryState.EXPIRED
    assert len(fake.pusher.pushes) == 1


@pytest.mark.parametrize("first", [None, GONE, FAIL], ids=["with the second", "before it", "by a retry"])
def test_a_suspended_backlog_is_looked_at_when_the_first_of_its_deliveries_expires(
    fake: FakeWorld, first: Outcome | None
) -> None:
    fake.topic(retention_s=3_600)
    fake.subscribe("A", answers=first or GONE)
    [long] = fake.publish("long")
    if first is not None:
        fake.deliver()
    fake.topic(retention_s=60)
    [short] = fake.first_round("short")
    fake.pusher.behaviours["A"] = lambda push: GONE
    fake.run_for(30)
    fake.sweep()
    assert pending(fake) == [long, short]

    fake.clock.sleep(60)
    fake.sweep()

    assert pending(fake) == [long]
    assert entry(fake, short).state is EntryState.EXPIRED


def test_what_another_worker_delivers_between_two_reads_is_not_pushed_again(
    fake: FakeWorld, before: Before, monkeypatch: pytest.MonkeyPatch
) -> None:
    [message_id] = blocked(fake, "1")
    fake.pusher.behaviours["A"] = lambda push: OK

    def overtake(table: Table, pk: str, **bounds: Any) -> None:
        if pk.startswith("LANES#"):
            monkeypatch.undo()
            elsewhere(lambda: fake.run_for(30))

    before.each(fake.store, "query", overtake)
    fake.fan_out("test1", [message_id])

    assert fake.pusher.received["A"] == ["1"]
    assert entry(fake, message_id).attempts == 2


def test_a_message_in_the_queue_when_its_subscription_and_its_tombstone_are_gone_is_cancelled(fake: FakeWorld) -> None:
    made = fake.subscribe("A")
    [message_id] = fake.publish("1")
    subscriptions.delete_subscription(fake.world, "test1", "A")
    del fake.store.rows[lane_key("test1", made.subscription_id)]

    fake.deliver()

    [ended] = messages.message_view(fake.world, "test1", message_id).subscribers.values()
    assert (ended.state, ended.attempts) == (EntryState.CANCELLED, 0)
    assert fake.pusher.pushes == []


def test_a_process_that_has_not_heard_of_a_removal_pushes_nothing_past_the_tombstone(fake: FakeWorld) -> None:
    fake.subscribe("A")
    [message_id] = fake.publish("1")
    present = {key: row for key, row in fake.store.rows.items() if key.sk in ("SUB#A", "TOPIC")}
    subscriptions.delete_subscription(fake.world, "test1", "A")
    fake.store.rows |= present
    fake.world.memory.of(Directories).clear()

    fake.deliver()

    assert entry(fake, message_id).state is EntryState.CANCELLED
    assert fake.pusher.pushes == []


def test_an_execution_whose_lane_is_gone_or_another_s_hands_over_to_nobody(fake: FakeWorld) -> None:
    made = fake.subscribe("A")
    continue_as_new(fake.world, Task("test1", made.subscription_id, "0", 1_500))
    assert fake.workflow.tasks == []
    fake.pusher.behaviours["A"] = lambda push: FAIL
    fake.first_round("1")
    tasks = list(fake.workflow.tasks)

    continue_as_new(fake.world, Task("test1", made.subscription_id, "0", 1_500))
    assert fake.workflow.tasks == tasks
    continue_as_new(fake.world, replace(tasks[0], rounds=1_500))

    [_, fresh] = fake.workflow.tasks
    row = fake.store.rows[lane_key("test1", made.subscription_id)]
    assert fresh == Task("test1", made.subscription_id, str(row["generation"]), 0)
    assert fresh.generation > tasks[0].generation


def test_what_is_owed_of_a_topic_that_is_gone_is_cancelled(fake: FakeWorld) -> None:
    fake.subscribe("A")
    [message_id] = fake.publish("1")
    del fake.store.rows[topic_key("test1")]

    fake.deliver()

    row = fake.store.get(message_key("test1", message_id))
    assert row is not None
    assert MESSAGES.value_of(row).map.entry(0).state is EntryState.CANCELLED
    assert not fake.pusher.pushes
