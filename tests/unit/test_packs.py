"""The messages of a request travel together: one entry of the queue for those of one order, sent again as it was."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ParamSpec, TypeVar

import pytest
from tagcast.delivery.publishing import Idempotency, publish
from tagcast.errors import UnavailableError
from tagcast.model import Draft, Ordering, Outcome, Push, Strategy
from tagcast.ports import QueueEntry, Write
from tagcast.queues import PACK_MAX, Audience, entry_text
from tagcast.repairing.relay import relay
from tagcast.rows.keys import message_key
from tagcast.rows.message import MESSAGES

from functions.fan_out import app as fan_out
from tests.fakes.memory_store import MemoryStore
from tests.fakes.queue_records import batch_of
from tests.fakes.world import FakeWorld, InlineExecutor
from tests.unit.worlds import served, slow

SQS_REQUEST_BYTES_MAX = 262_144
P = ParamSpec("P")
T = TypeVar("T")


class FailingStore(MemoryStore):
    """Stores so many messages and then no more."""

    left = 10**9

    def transact(self, writes: Sequence[Write]) -> None:
        self.left -= 1
        if self.left < 0:
            raise UnavailableError("the table is away", 1)
        super().transact(writes)


@pytest.fixture
def store() -> FailingStore:
    return FailingStore()


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    fake.subscribe("kept")
    return fake


def numbered(count: int) -> list[str]:
    return [f"{number:03d}" for number in range(count)]


def relayed(fake: FakeWorld, *message_ids: str) -> list[QueueEntry]:
    """What the relay sends that sees the rows of these messages, each by itself."""
    fake.queue.entries = []
    for message_id in message_ids:
        row = fake.store.rows[message_key("test1", message_id)]
        relay(fake.world, [MESSAGES.value_of(row)])
    return fake.queue.entries


def test_the_messages_of_a_request_that_stand_in_one_order_are_one_entry(fake: FakeWorld) -> None:
    ids = fake.publish(*numbered(5))

    [entry] = fake.queue.entries
    assert entry.message_ids == tuple(ids)
    fake.deliver()
    assert fake.pusher.received["kept"] == numbered(5)


def test_each_order_of_a_request_is_an_entry_of_its_own() -> None:
    fake = FakeWorld()
    fake.topic(ordering=Ordering.KEY)
    fake.subscribe("kept")
    drafts = [Draft(f"{number}".encode(), ordering_key=key) for number, key in enumerate(("a", "b", "a", "b", None))]

    ids = [each.message_id for each in publish(fake.world, "test1", drafts)]

    found = [(entry.message_ids, entry.has_order) for entry in fake.queue.entries]
    assert found == [((ids[0], ids[2]), True), ((ids[1], ids[3]), True), ((ids[4],), False)]


def test_what_stands_in_no_order_travels_in_packs_of_which_ten_are_one_part(fake: FakeWorld) -> None:
    fake.subscribe("kept", strategy=Strategy.EXPONENTIAL_DECAY_RETRY)

    fake.publish(*numbered(20))

    assert [len(entry.message_ids) for entry in fake.queue.entries] == [9, 9, 2]
    assert not any(entry.has_order for entry in fake.queue.entries)


def test_the_relay_sends_a_request_as_its_publisher_did_once_its_last_message_is_stored(fake: FakeWorld) -> None:
    fake.subscribe("free", strategy=Strategy.EXPONENTIAL_DECAY_RETRY)
    ids = fake.publish(*numbered(4))
    sent = fake.queue.entries

    assert {entry.audience for entry in sent} == {Audience.IN_ORDER, Audience.APART}
    assert relayed(fake, *ids[:3]) == []
    assert relayed(fake, *ids) == sent


def test_the_last_message_carries_the_others_also_when_it_matches_nobody(fake: FakeWorld) -> None:
    fake.subscribe("kept", "apple")
    drafts = [Draft(b"1", tags=("apple",)), Draft(b"2", tags=("apple",)), Draft(b"3", tags=("pear",))]
    ids = [each.message_id for each in publish(fake.world, "test1", drafts)]
    sent = fake.queue.entries

    assert relayed(fake, *ids) == sent != []


def test_what_a_request_stored_that_failed_is_queued_all_the_same(fake: FakeWorld, store: FailingStore) -> None:
    store.left = 3

    with pytest.raises(UnavailableError):
        fake.publish(*numbered(5))

    store.left = 10**9
    fake.deliver()
    assert fake.pusher.received["kept"] == numbered(3)


def test_a_repetition_that_brings_more_is_no_repetition_to_the_queue(fake: FakeWorld, store: FailingStore) -> None:
    drafts = [Draft(each.encode()) for each in numbered(5)]
    claims = [Idempotency("k", "f").at(place) for place in range(5)]
    store.left = 3
    with pytest.raises(UnavailableError):
        publish(fake.world, "test1", drafts, claims)
    store.left = 10**9

    publish(fake.world, "test1", drafts, claims)

    first, second = fake.queue.entries
    assert first.message_id == second.message_id
    assert first.deduplication_id != second.deduplication_id
    fake.deliver()
    assert fake.pusher.received["kept"] == numbered(5)


def test_two_topics_that_draw_one_message_id_are_told_apart_by_the_queue(fake: FakeWorld) -> None:
    fake.topic("test2")
    fake.subscribe("other", topic="test2")
    for topic in ("test1", "test2"):
        fake.world.dice.count = 1_000  # type: ignore[attr-defined]
        publish(fake.world, topic, [Draft(topic.encode())])

    assert len({entry.message_id for entry in fake.queue.entries}) == 1
    assert len({entry.deduplication_id for entry in fake.queue.entries}) == 2
    fake.deliver()
    assert (fake.pusher.received["kept"], fake.pusher.received["other"]) == (["test1"], ["test2"])


def test_what_does_not_fit_behind_a_slow_part_comes_again_at_once_and_in_order(fake: FakeWorld) -> None:
    slow(fake, 1.0, name="kept")
    for start in range(0, 100, 50):
        fake.publish(*numbered(100)[start : start + 50])
    second = batch_of(fake.queue.entries)["Records"][1]

    assert served(fake) == [second["messageId"]]
    assert fake.queue.given_back == [second["receiptHandle"]]
    fake.pusher.behaviours.clear()
    again = asyncio.run(fan_out.handle({"Records": [second]}, fake.world))
    assert again == {"batchItemFailures": []}
    fake.run_workflows(until=fake.clock.instant + 60_000)
    assert fake.pusher.received["kept"] == numbered(100)


class HeldExecutor(InlineExecutor):
    """Holds the first request of many updates until *is_met*, or until nothing else moves any more."""

    def __init__(self) -> None:
        self.is_met = False
        self.told: list[str] = []

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        name = getattr(call, "__name__", "")
        turns = 0 if self.is_met or name != "update_each" else 1_000
        while turns and not self.is_met:
            await asyncio.sleep(0)
            turns -= 1
        self.told.append(name)
        return call(*args, **kwargs)


def test_what_came_of_a_part_is_written_while_the_next_one_is_pushed(fake: FakeWorld) -> None:
    executor = HeldExecutor()
    fake.world = replace(fake.world, executor=executor)
    fake.publish(*numbered(90))
    fake.publish(*numbered(99)[90:])

    def pushed(push: Push) -> None:
        if push.message.draft.body == b"090":
            executor.is_met = True
            executor.told.append("second part")

    fake.pusher.before_push = pushed

    assert served(fake) == []
    assert executor.told.index("second part") < executor.told.index("update_each")
    assert fake.pusher.received["kept"] == numbered(99)
    assert all(row["pending"] == 0 for key, row in fake.store.rows.items() if key.sk == "MSG")


def test_the_messages_of_a_part_are_read_while_the_one_before_it_is_pushed(fake: FakeWorld) -> None:
    executor = HeldExecutor()
    executor.is_met = True
    fake.world = replace(fake.world, executor=executor)
    fake.publish(*numbered(90))
    fake.publish(*numbered(99)[90:])

    served(fake)

    reads = [name for name in executor.told if name in ("read_addressed", "lanes")]
    assert reads == ["read_addressed", "lanes", "read_addressed", "lanes"]
    first_read = executor.told.index("read_addressed")
    assert executor.told.index("update_each") > executor.told.index("read_addressed", first_read + 1)


def test_a_message_that_comes_again_in_the_next_part_is_not_pushed_again(fake: FakeWorld) -> None:
    fake.publish(*numbered(90))
    fake.publish(*numbered(99)[90:])
    first, second = fake.queue.entries
    again = replace(second, message_id=first.message_id, others=second.message_ids)

    served(fake, first, again)

    assert fake.pusher.received["kept"] == numbered(99)


def test_a_message_that_comes_again_two_parts_later_is_read_after_its_end_is_written(fake: FakeWorld) -> None:
    fake.world = replace(fake.world, executor=HeldExecutor(), slice_max=2)
    fake.publish("1", "2")
    fake.publish("3", "4")
    first, second = fake.queue.entries
    again = replace(first, audience=Audience.EVERYBODY)

    served(fake, first, second, again)

    assert fake.pusher.received["kept"] == ["1", "2", "3", "4"]


def test_behind_a_part_that_could_not_join_a_backlog_nothing_is_pushed(fake: FakeWorld, store: FailingStore) -> None:
    fake.publish(*numbered(90))
    fake.publish(*numbered(99)[90:])
    fake.pusher.behaviours["kept"] = lambda push: Outcome(False, "no")
    store.left = 0

    assert len(served(fake)) == 2
    assert [push.message.draft.body for push in fake.pusher.pushes] == [b"000"]


def test_ten_of_the_largest_entries_fit_into_a_request_to_the_queue() -> None:
    ids = [f"{2**64 - 1 - number:020d}" for number in range(PACK_MAX)]
    largest = entry_text(QueueEntry("t" * 64, ids[0], "g", Audience.EVERYBODY, tuple(ids[1:])))

    assert 10 * len(largest) < SQS_REQUEST_BYTES_MAX
