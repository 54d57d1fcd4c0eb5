"""Many lanes whose heads are the same message: contention for its row costs time, and no push."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from tagcast.archive.record import Change
from tagcast.archive.records import records_of
from tagcast.delivery.redelivery import Answer
from tagcast.errors import ContendedError
from tagcast.model import Entry, EntryState, LaneState
from tagcast.operating import lanes, messages
from tagcast.ports import Write
from tagcast.registry import subscriptions
from tagcast.repairing.expiry import expire_messages
from tagcast.rows.due import DUES, OwedDelivery
from tagcast.rows.keys import message_key
from tagcast.rows.message import MESSAGES

from tests.fakes.herd import removal, stampede
from tests.fakes.memory_store import MemoryStore
from tests.fakes.world import FAIL, OK, FakeWorld


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_lanes_that_wake_together_repeat_no_push_and_settle_within_seconds(seed: int) -> None:
    herd = stampede(60, 4_096, seed=seed)

    assert herd.extra == 0
    assert herd.counts["conflicts"] + herd.counts["conditions lost"] > 60
    assert herd.seconds < 6


def test_what_removed_subscriptions_owe_ends_many_at_once() -> None:
    """One by one they took 8.7 s, and held functions for 65 s."""
    came = removal(30, 60, at_once=8)

    assert came.attempts == 30, "what was attempted before is told"
    assert came.seconds < 3
    assert came.worker_s < 20


def test_a_large_body_makes_it_slow_but_repeats_no_push() -> None:
    herd = stampede(20, 60_000)

    assert herd.extra == 0
    assert herd.counts["throttled"] > 0
    assert herd.seconds < 10


class CrowdedStore(MemoryStore):
    """Keeps transactions on messages out while it is *crowded*."""

    def __init__(self) -> None:
        super().__init__()
        self.crowded = False
        self.kept_out = 0

    def transact(self, writes: Sequence[Write]) -> None:
        if self.crowded and any(write.key.pk.startswith("MSG#") for write in writes):
            self.kept_out += 1
            raise ContendedError
        super().transact(writes)


@pytest.fixture
def store() -> CrowdedStore:
    return CrowdedStore()


@pytest.fixture
def fake(store: CrowdedStore) -> FakeWorld:
    """A lane that owes two messages; the receiver is healthy again."""
    fake = FakeWorld(store=store)
    fake.topic()
    fake.subscribe("A")
    fake.pusher.behaviours["A"] = lambda push: FAIL
    fake.publish("1", "2")
    fake.deliver()
    fake.pusher.behaviours["A"] = lambda push: OK
    return fake


class HaltingCrowd(MemoryStore):
    """Keeps a worker out of the messages each time that it waited before: the first try without a wait succeeds."""

    waited = False

    def transact(self, writes: Sequence[Write]) -> None:
        if self.waited and any(write.key.pk.startswith("MSG#") for write in writes):
            self.waited = False
            raise ContendedError
        super().transact(writes)


def push_in_the_crowd(fake: FakeWorld, store: CrowdedStore) -> Answer:
    """Let a worker push the head for as long as nobody gets through to the message's row."""
    fake.clock.sleep(20)
    store.crowded = True
    [task] = fake.workflow.tasks
    fake.workflow.tasks = []
    answer = fake.redeliver(task)
    store.crowded = False
    return answer


def head_of(fake: FakeWorld) -> str:
    return min(str(row["message_id"]) for key, row in fake.store.rows.items() if key.pk.startswith("MSG#"))


def entry(fake: FakeWorld) -> Entry:
    row = fake.store.get(message_key("test1", head_of(fake)))
    assert row is not None
    [entry] = MESSAGES.value_of(row).map.settled.values()
    return entry


def delivered(fake: FakeWorld) -> bool:
    end = entry(fake)
    return (end.state, end.attempts, end.last_outcome) == (EntryState.DELIVERED, 2, "http 200")


def test_whoever_comes_next_settles_what_got_through_without_pushing_it_again(
    fake: FakeWorld, store: CrowdedStore
) -> None:
    answer = push_in_the_crowd(fake, store)
    assert answer.wait_until is not None
    assert fake.pusher.received["A"] == ["1"]

    fake.clock.instant = max(fake.clock.instant, answer.wait_until)
    fake.redeliver(answer.task)

    assert fake.pusher.received["A"] == ["1", "2"]
    assert delivered(fake)
    assert fake.telemetry.counts["OutcomesLost"] == 0


def test_an_end_without_a_push_stays_what_it_is_when_the_budget_ends_first() -> None:
    store = HaltingCrowd()
    fake = FakeWorld(store=store)
    fake.topic()
    fake.subscribe("A", filter={"kind": "function", "function": "f", "on_error": "block", "timeout_seconds": 3})
    fake.filter_functions.behaviours["A"] = lambda asked: None
    [message_id] = fake.publish("1")
    fake.deliver()
    fake.filter_functions.behaviours["A"] = lambda asked: (False,)
    fake.clock.sleep(20)
    [task] = fake.workflow.tasks
    pause = fake.clock.pause

    async def wait(seconds: float) -> None:
        store.waited = True
        await pause(seconds)

    fake.clock.pause, store.waited = wait, True  # type: ignore[method-assign]
    answer = fake.redeliver(task)
    [row] = [row for key, row in store.rows.items() if key.pk.startswith("DUE#")]
    assert "ended" not in row
    store.waited = False
    fake.clock.instant = max(fake.clock.instant, answer.wait_until or 0)
    fake.redeliver(answer.task)

    assert messages.message_view(fake.world, "test1", message_id).subscribers["A"].state is EntryState.FILTERED


def test_the_budget_of_a_worker_that_waits_is_kept(fake: FakeWorld, store: CrowdedStore) -> None:
    began = fake.clock.instant + 20_000
    push_in_the_crowd(fake, store)

    assert 50_000 < fake.clock.instant - began <= 61_000
    assert store.kept_out < 200


def test_what_got_through_is_shown_as_delivered_before_its_row_says_so(fake: FakeWorld, store: CrowdedStore) -> None:
    push_in_the_crowd(fake, store)

    view = lanes.lane_view(fake.world, subscriptions.get_subscription(fake.world, "test1", "A"))
    shown = messages.message_view(fake.world, "test1", head_of(fake))

    assert view.head is not None
    assert (view.head.state, view.head.attempts, view.head.next_attempt_at) == (EntryState.DELIVERED, 2, None)
    assert (shown.subscribers["A"].state, shown.subscribers["A"].attempts) == (EntryState.DELIVERED, 2)
    assert shown.state == "retained"


def wait_for_the_worker(fake: FakeWorld) -> None:
    fake.run_workflows(until=fake.clock.instant + 120_000)


def skip(fake: FakeWorld) -> None:
    lanes.skip_head(fake.world, "test1", "A", "by hand")


def unsubscribe(fake: FakeWorld) -> None:
    subscriptions.delete_subscription(fake.world, "test1", "A")
    wait_for_the_worker(fake)


def pause_and_expire(fake: FakeWorld) -> None:
    lanes.pause(fake.world, "test1", "A")
    fake.clock.sleep(90_000)
    fake.sweep()


def pause_and_expire_the_list(fake: FakeWorld) -> None:
    lanes.pause(fake.world, "test1", "A")
    fake.clock.sleep(90_000)
    assert asyncio.run(expire_messages(fake.world, "test1", [(head_of(fake), None)])) == 1


def outlive(fake: FakeWorld) -> None:
    fake.clock.sleep(90_000)
    assert messages.message_view(fake.world, "test1", head_of(fake)).subscribers["A"].state is EntryState.DELIVERED
    lanes.retry_now(fake.world, "test1", "A")
    wait_for_the_worker(fake)


def resume(fake: FakeWorld) -> None:
    lanes.pause(fake.world, "test1", "A")
    lanes.resume(fake.world, "test1", "A")
    wait_for_the_worker(fake)


@pytest.mark.parametrize(
    "happening",
    [skip, unsubscribe, pause_and_expire, pause_and_expire_the_list, outlive, resume],
)
def test_what_got_through_ends_as_delivered_whatever_happens_to_its_lane(
    fake: FakeWorld, store: CrowdedStore, happening: Callable[[FakeWorld], None]
) -> None:
    push_in_the_crowd(fake, store)

    happening(fake)

    assert delivered(fake)
    assert fake.pusher.received["A"].count("1") == 1


def test_a_skip_of_what_got_through_leaves_the_next_one_to_be_attempted(fake: FakeWorld, store: CrowdedStore) -> None:
    push_in_the_crowd(fake, store)

    skip(fake)
    fake.run_workflows(until=fake.clock.instant + 1)

    assert fake.pusher.received["A"] == ["1", "2"]


def test_the_last_failure_is_not_made_twice_either(fake: FakeWorld, store: CrowdedStore) -> None:
    fake.pusher.behaviours["A"] = lambda push: FAIL
    [task] = fake.workflow.tasks
    fake.clock.sleep(20)
    for _ in range(2):
        fake.clock.sleep(20)
        fake.redeliver(task)
    fake.clock.sleep(20)
    pushes = len(fake.pusher.pushes)

    push_in_the_crowd(fake, store)
    fake.clock.sleep(20)
    fake.pusher.behaviours["A"] = lambda push: OK
    fake.redeliver(task)

    assert [push.attempt for push in fake.pusher.pushes[pushes:] if push.message.draft.body == b"1"] == [4]
    assert (entry(fake).state, entry(fake).attempts) == (EntryState.DISCARDED, 4)


def test_a_push_whose_outcome_is_lost_with_the_lane_is_counted(fake: FakeWorld) -> None:
    fake.clock.sleep(20)
    [task] = fake.workflow.tasks
    fake.pusher.before_push = lambda push: lanes.pause(fake.world, "test1", "A")

    fake.redeliver(task)

    assert fake.telemetry.counts["OutcomesLost"] == 1


def test_the_archive_tells_an_end_once_when_the_row_of_the_message_says_it(
    fake: FakeWorld, store: CrowdedStore
) -> None:
    [before] = [dict(row) for key, row in store.rows.items() if key.sk.endswith(f"#{head_of(fake)}")]
    push_in_the_crowd(fake, store)
    [after] = [dict(row) for key, row in store.rows.items() if key.sk.endswith(f"#{head_of(fake)}")]

    assert (after["attempts"], after["ended"]) == (2, "delivered")
    assert list(records_of(Change(before, after, fake.clock.instant), lambda topic: False)) == []


def test_a_due_row_without_an_end_reads_as_the_release_before_wrote_it() -> None:
    row = DUES.row_of(OwedDelivery("t.1", "0", "7", 2, 9, 5, "http 500"))

    assert row.keys() == {"attempts", "expires_at", "ttl", "last_attempt_at", "last_outcome"}


def test_a_lane_that_is_paused_while_its_worker_waits_keeps_the_end(fake: FakeWorld, store: CrowdedStore) -> None:
    crowd: Callable[[], object] = lambda: lanes.pause(fake.world, "test1", "A")  # noqa: E731
    pauses = 0
    pause = fake.clock.pause

    async def paused_meanwhile(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 6:
            crowd()
        await pause(seconds)

    fake.clock.pause = paused_meanwhile  # type: ignore[method-assign]
    push_in_the_crowd(fake, store)

    view = lanes.lane_view(fake.world, subscriptions.get_subscription(fake.world, "test1", "A"))
    assert view.state is LaneState.PAUSED
    assert view.head is not None
    assert view.head.state is EntryState.DELIVERED
    assert fake.telemetry.counts["OutcomesLost"] == 0
