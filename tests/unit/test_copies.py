"""A batch that comes twice, at once or after an accident, joins each backlog once and ends nothing over its lane."""

from collections.abc import Sequence
from random import Random

import pytest
from tagcast.delivery.lease import Task
from tagcast.model import BODY_BYTES_MAX, EntryState, Ordering, Outcome, Push, TopicSettings
from tagcast.ports import Table, Write
from tagcast.registry import subscriptions, topics
from tagcast.rows.due import DUES, PendingDelivery
from tagcast.rows.lane import ID_BYTES, JOINED_MAX

from tests.aws.limits import TRANSACTION_BYTES_MAX
from tests.fakes.memory_store import MemoryStore
from tests.fakes.raced_store import elsewhere
from tests.fakes.world import FAIL, OK, FakeWorld
from tests.item_size import row_size
from tests.unit.worlds import entry, lane


class CrashError(Exception):
    """The process is no more."""


@pytest.fixture
def fake() -> FakeWorld:
    fake = FakeWorld()
    fake.topic(retention_s=60, ordering=Ordering.NONE)
    fake.subscribe("A", answers=FAIL)
    return fake


def crash_before_the_end(fake: FakeWorld, ids: Sequence[str]) -> None:
    """Let a first copy of the batch hand its deliveries to the lane, and die before it closes the messages."""

    def crash(writes: Sequence[Write]) -> None:
        if any(write.key.pk.startswith("MSG#") for write in writes):
            raise CrashError

    fake.store.before_transact = crash
    with pytest.raises(CrashError):
        fake.fan_out("test1", ids)
    fake.store.before_transact = lambda writes: None


def dues(fake: FakeWorld) -> list[PendingDelivery]:
    sid = subscriptions.get_subscription(fake.world, "test1", "A").subscription_id
    return [DUES.value_of(row) for row in fake.store.query(Table.MESSAGES, f"DUE#{sid}")]


def test_a_late_good_answer_counts_its_own_attempt_and_leaves_a_due_row_that_is_dropped(fake: FakeWorld) -> None:
    [message_id] = fake.publish("1")

    def other() -> None:
        crash_before_the_end(fake, [message_id])
        fake.clock.sleep(20)
        fake.redeliver(fake.workflow.tasks[-1])

    def answer_after_the_other(push: Push) -> Outcome:
        fake.pusher.behaviours["A"] = lambda push: FAIL
        elsewhere(other)
        return OK

    fake.pusher.behaviours["A"] = answer_after_the_other
    fake.fan_out("test1", [message_id])

    assert (entry(fake, message_id).state, entry(fake, message_id).attempts) == (EntryState.DELIVERED, 1)
    assert [due.attempts for due in dues(fake)] == [2]
    pushed = len(fake.pusher.pushes)
    fake.workflow.tasks = [Task("test1", lane(fake).subscription_id, lane(fake).generation)]
    fake.clock.sleep(60)
    fake.run_for(600)
    assert dues(fake) == []
    assert len(fake.pusher.pushes) == pushed


def test_a_lane_s_row_names_the_last_that_joined_and_stays_small(fake: FakeWorld) -> None:
    fake.topic(retention_s=86_400)
    for start in range(0, 100, 10):
        fake.first_round(*map(str, range(start, start + 10)))

    ids = [due.message_id for due in dues(fake)]
    held = [each for each in ids if lane(fake).holds(each)]

    assert held == ids[-JOINED_MAX:]
    assert len(lane(fake).joined) == JOINED_MAX * ID_BYTES


class BoundedStore(MemoryStore):
    """Fails at a transaction whose rows are together larger than DynamoDB accepts."""

    def transact(self, writes: Sequence[Write]) -> None:
        super().transact(writes)
        rows = [self.rows[write.key] for write in writes if write.key in self.rows]
        assert sum(map(row_size, rows)) <= TRANSACTION_BYTES_MAX


def test_large_messages_with_an_open_first_round_are_cancelled_in_transactions_that_dynamodb_accepts() -> None:
    fake = FakeWorld(store=BoundedStore())
    topics.put_topic(fake.world, "test1", TopicSettings(3_600, body_bytes_max=BODY_BYTES_MAX))
    fake.subscribe("A", answers=FAIL)
    bodies = [Random(each).randbytes(BODY_BYTES_MAX // 2) for each in range(40)]
    ids = [fake.publish(body.hex())[0] for body in bodies]
    crash_before_the_end(fake, ids)

    subscriptions.delete_subscription(fake.world, "test1", "A")
    fake.run_for(60)

    assert {entry(fake, each).state for each in ids} == {EntryState.CANCELLED}
