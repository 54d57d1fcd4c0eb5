"""Bugs that the simulation found, as the shortest stories that showed them."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tagcast.delivery.publishing import publish
from tagcast.errors import ConditionLostError, NotFoundError
from tagcast.model import Draft, Entry, EntryState, LaneState, Ordering, Push
from tagcast.operating import lanes
from tagcast.ports import Delete, Key, Put, Row, Table, World, Write
from tagcast.registry import subscriptions
from tagcast.rows.keys import lane_key, message_key, topic_key
from tagcast.rows.lane import LANES, Lane
from tagcast.rows.message import MessageRow
from tagcast.rows.message_transitions import end_writes

from tests.fakes.memory_store import MemoryStore
from tests.fakes.raced_store import RepeatingStore, elsewhere
from tests.fakes.whole_message import whole_message
from tests.fakes.world import FAIL, OK, FakeWorld


class RacingStore(MemoryStore):
    """Lets somebody else act once, just before a row or a partition is read."""

    def __init__(self) -> None:
        super().__init__()
        self.before_get: dict[Key, Callable[[], object]] = {}
        self.before_query: dict[str, Callable[[], object]] = {}

    def get(self, key: Key) -> Row | None:
        self.before_get.pop(key, lambda: None)()
        return super().get(key)

    def query(
        self, table: Table, pk: str, *, sk_from: str = "", sk_to: str = "\U0010ffff", limit: int | None = None
    ) -> list[Row]:
        self.before_query.pop(pk, lambda: None)()
        return super().query(table, pk, sk_from=sk_from, sk_to=sk_to, limit=limit)


def lane(fake: FakeWorld, name: str) -> Lane:
    subscription = subscriptions.get_subscription(fake.world, "test1", name)
    return LANES.value_of(fake.store.rows[lane_key("test1", subscription.subscription_id)])


def stored(fake: FakeWorld, message_id: str) -> MessageRow:
    row = whole_message(fake.store, "test1", message_id)
    assert row is not None
    return row


@pytest.fixture
def store() -> RacingStore:
    return RacingStore()


@pytest.fixture
def fake(store: RacingStore) -> FakeWorld:
    fake = FakeWorld(store=store)
    fake.topic()
    return fake


def test_a_put_that_the_sdk_repeats_makes_one_message() -> None:
    fake = FakeWorld(store=RepeatingStore())
    fake.topic()
    fake.subscribe("A")

    [message_id] = fake.publish("1")
    fake.deliver()

    assert [key for key in fake.store.rows if key.pk.startswith("MSG#")] == [message_key("test1", message_id)]
    assert fake.pusher.received["A"] == ["1"]


def test_a_repeated_put_of_somebody_elses_message_is_no_success() -> None:
    class Clashing(MemoryStore):
        clashes = 1

        def write(self, write: Write) -> None:
            if isinstance(write, Put) and write.key.pk.startswith("MSG#") and self.clashes:
                self.clashes -= 1
                super().write(replace(write, row={**write.row, "body": b"another"}))
                raise ConditionLostError
            super().write(write)

    fake = FakeWorld(store=Clashing())
    fake.topic()
    fake.subscribe("A")

    [message_id] = fake.publish("1")

    bodies = {row["message_id"]: row["body"] for key, row in fake.store.rows.items() if key.pk.startswith("MSG#")}
    assert bodies.pop(message_id) == b"1"
    assert list(bodies.values()) == [b"another"]


def skip_head(world: World, topic: str, name: str) -> object:
    return lanes.skip_head(world, topic, name, "by hand")


@pytest.mark.parametrize("command", [lanes.pause, lanes.retry_now, skip_head])
def test_a_command_that_races_with_an_unsubscribe_leaves_the_tombstone_alone(
    fake: FakeWorld, store: RacingStore, command: Callable[[World, str, str], object]
) -> None:
    subscription = fake.subscribe("A")
    fake.pusher.behaviours["A"] = lambda push: FAIL
    [message_id] = fake.publish("1")
    fake.deliver()
    key = lane_key("test1", subscription.subscription_id)
    store.before_get[key] = lambda: subscriptions.delete_subscription(fake.world, "test1", "A")

    with pytest.raises(NotFoundError):
        command(fake.world, "test1", "A")

    assert LANES.value_of(store.rows[key]).state is LaneState.REMOVED
    fake.run_workflows(until=fake.clock.instant + 1)
    assert stored(fake, message_id).map.entry(subscription.ordinal).state is EntryState.CANCELLED


def test_a_repush_of_a_topic_passes_over_a_subscription_that_is_paused_meanwhile(
    fake: FakeWorld, store: RacingStore
) -> None:
    for name in ("A", "B"):
        fake.subscribe(name)
        fake.pusher.behaviours[name] = lambda push: FAIL
    fake.publish("1")
    fake.deliver()
    paused = subscriptions.get_subscription(fake.world, "test1", "A")
    store.before_get[lane_key("test1", paused.subscription_id)] = lambda: lanes.pause(fake.world, "test1", "A")

    assert lanes.retry_topic(fake.world, "test1") == ("B",)
    assert lane(fake, "A").state is LaneState.PAUSED
    assert lane(fake, "B").next_attempt_at == fake.clock.instant


class TwoOrders:
    """A subscription whose deliveries of two orders both fail: the first at 0 s, the second, behind it, at 8 s."""

    def __init__(self) -> None:
        self.fake = fake = FakeWorld()
        fake.topic(ordering=Ordering.KEY)
        self.subscription = fake.subscribe("A", max_retries=1)
        fake.pusher.behaviours["A"] = lambda push: FAIL
        drafts = [Draft(b"1", ordering_key="k1"), Draft(b"2", ordering_key="k2")]
        self.first, self.second = (accepted.message_id for accepted in publish(fake.world, "test1", drafts))
        self.began = fake.clock.instant
        self.pushed: list[tuple[str, int]] = []
        fake.pusher.before_push = self.fail_the_first_and_wait
        fake.fan_out("test1", [self.second])

    def note(self, push: Push) -> None:
        self.pushed.append((push.message.message_id, self.fake.clock.instant - self.began))

    def fail_the_first_and_wait(self, push: Push) -> None:
        self.fake.pusher.before_push = self.note
        elsewhere(lambda: self.fake.fan_out("test1", [self.first]))
        self.fake.clock.sleep(8)
        self.note(push)


def test_what_failed_in_another_order_keeps_its_own_schedule_when_it_becomes_the_head() -> None:
    two = TwoOrders()

    two.fake.run_workflows(until=two.began + 60_000)

    assert two.pushed == [(two.first, 0), (two.second, 8_000), (two.first, 15_000), (two.second, 23_000)]


def test_the_schedule_of_a_head_that_is_over_already_is_nobody_elses() -> None:
    two = TwoOrders()
    before = stored(two.fake, two.first)
    delivered = Entry(EntryState.DELIVERED, 1, two.began, "http 200")
    two.fake.store.transact(end_writes(before, {two.subscription.ordinal: delivered}))

    two.fake.run_workflows(until=two.began + 60_000)

    assert two.pushed == [(two.first, 0), (two.second, 8_000), (two.second, 23_000)]


class FirstOver(TwoOrders):
    """The first got through in a copy of its batch, which took it out of the backlog before the second joined that."""

    def fail_the_first_and_wait(self, push: Push) -> None:
        super().fail_the_first_and_wait(push)
        store, before = self.fake.store, stored(self.fake, self.first)
        [key] = [key for key in store.rows if key.pk.startswith("DUE#")]
        delivered = Entry(EntryState.DELIVERED, 1, self.began, "http 200")
        store.transact([*end_writes(before, {self.subscription.ordinal: delivered}), Delete(key)])


def test_the_schedule_of_a_head_that_left_the_backlog_is_nobody_elses() -> None:
    two = FirstOver()

    two.fake.run_workflows(until=two.began + 60_000)

    assert two.pushed == [(two.first, 0), (two.second, 8_000), (two.second, 23_000)]


def test_somebody_who_asks_for_the_head_gets_it_whomever_the_lane_was_planned_for() -> None:
    two = FirstOver()

    two.fake.clock.sleep(2)
    lanes.retry_now(two.fake.world, "test1", "A")
    two.fake.run_workflows(until=two.began + 60_000)

    *_, (pushed, at_ms) = two.pushed
    assert pushed == two.second
    assert at_ms < 11_000


def test_a_worker_asks_a_filter_function_that_came_after_its_claim() -> None:
    fake = FakeWorld()
    fake.topic()
    fake.subscribe("A")
    fake.pusher.behaviours["A"] = lambda push: FAIL
    fake.publish("1")
    fake.deliver()
    fake.filter_functions.behaviours["A"] = lambda messages: (False,) * len(messages)
    second: list[str] = []

    def refilter_and_publish(push: Push) -> None:
        fake.pusher.before_push = lambda push: None
        fake.pusher.behaviours["A"] = lambda push: OK
        fake.subscribe("A", filter={"kind": "function", "function": "judge"})
        second.extend(fake.publish("2"))
        elsewhere(fake.deliver)

    fake.pusher.before_push = refilter_and_publish
    lanes.retry_now(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + 1)

    assert fake.pusher.received["A"] == ["1"]
    assert [entry.state for entry in stored(fake, second[0]).map.ended.values()] == [EntryState.FILTERED]


def test_a_head_that_is_planned_while_a_worker_comes_to_take_it_is_left_to_its_plan(
    fake: FakeWorld, store: RacingStore
) -> None:
    fake.subscribe("A")
    fake.pusher.behaviours["A"] = lambda push: FAIL
    fake.publish("1")
    fake.deliver()
    fake.clock.sleep(20)
    pushes = len(fake.pusher.pushes)
    planned = fake.clock.instant + 300_000

    def plan() -> None:
        store.rows[lane(fake, "A").key]["next_attempt_at"] = planned

    store.before_get[topic_key("test1")] = plan
    [task] = fake.workflow.tasks

    assert fake.redeliver(task).wait_until == planned
    assert len(fake.pusher.pushes) == pushes


def test_a_head_that_another_worker_attempts_before_a_slow_worker_reads_it_keeps_its_plan(
    fake: FakeWorld, store: RacingStore
) -> None:
    subscription = fake.subscribe("A")
    fake.pusher.behaviours["A"] = lambda push: FAIL
    fake.publish("1")
    fake.deliver()
    fake.clock.sleep(20)
    [task] = fake.workflow.tasks

    def retry_now() -> None:
        fake.clock.sleep(2)
        lanes.retry_now(fake.world, "test1", "A")
        elsewhere(lambda: fake.redeliver(fake.workflow.tasks[-1]))

    store.before_query[f"DUE#{subscription.subscription_id}"] = retry_now
    fake.redeliver(task)

    assert [push.attempt for push in fake.pusher.pushes] == [1, 2]


def test_a_pause_that_the_sdk_repeats_after_a_resume_makes_no_lane_of_that_generation_again() -> None:
    store = RepeatingStore()
    fake = FakeWorld(store=store)
    fake.topic()
    fake.subscribe("A")
    generations: list[str] = []

    def resume() -> None:
        generations.append(lane(fake, "A").generation)
        lanes.resume(fake.world, "test1", "A")

    store.meanwhile = resume
    lanes.pause(fake.world, "test1", "A")

    assert lane(fake, "A").state is LaneState.PAUSED
    assert lane(fake, "A").generation not in generations
