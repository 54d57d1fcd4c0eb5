"""The sweep reaches everything: in bounded time and memory, whatever one lane, one topic or one row is like."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from threading import Lock
from typing import Any

import pytest
from tagcast.errors import ConditionLostError
from tagcast.ids import topic_id_of
from tagcast.model import EntryState, Ordering, Outcome, RetryPolicy, Strategy
from tagcast.operating import lanes
from tagcast.ports import GroupQueue, Key, Put, QueueEntry, Row, Table, Write
from tagcast.queues import Audience
from tagcast.registry.subscriptions import get_subscription, put_subscription
from tagcast.repairing import expiry, overdue, search
from tagcast.repairing.relay import list_unsent, relay
from tagcast.repairing.removals import remove_orphans
from tagcast.repairing.sweep import SweepResult, sweep
from tagcast.rows.keys import message_key, sweep_key
from tagcast.rows.lane import LANES
from tagcast.rows.message import MESSAGES
from tagcast.rows.stored import ROWS_AT_ONCE
from tagcast_aws.runtime.system import ThreadExecutor

from tests.fakes.calls import Before
from tests.fakes.memory_store import MemoryStore
from tests.fakes.whole_message import whole_message
from tests.fakes.world import FakeClock, FakeWorld
from tests.unit.worlds import blocked, entry, failing, lane, row_of

GONE = Outcome(False, "http 410", gone=True)
BUDGET_S = 10.0


class SlowStore(MemoryStore):
    """A table whose calls take time, once *clock* is given; it remembers the longest answer."""

    def __init__(self) -> None:
        super().__init__()
        self.clock: FakeClock | None = None
        self.longest = 0
        self.refused: set[str] = set()

    def take(self, seconds: float) -> None:
        if self.clock is not None:
            self.clock.sleep(seconds)

    def get(self, key: Key) -> Row | None:
        self.take(0.005)
        return super().get(key)

    def query(self, table: Table, pk: str, **bounds: Any) -> list[Row]:
        rows = super().query(table, pk, **bounds)
        self.take(0.005 + len(rows) / 10_000)
        self.longest = max(self.longest, len(rows))
        return rows

    def transact(self, writes: Sequence[Write]) -> None:
        self.take(0.02)
        if any(write.key.pk.rpartition("#")[2] in self.refused for write in writes):
            raise UnavailableError
        super().transact(writes)


class UnavailableError(Exception):
    """What the adapter raises for a row that DynamoDB does not take."""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> SlowStore:
    for bound in ("PAGE", "RETAINED_PAGE"):
        monkeypatch.setattr(expiry, bound, 20)
    monkeypatch.setattr(expiry, "TOPICS_AT_ONCE", 2)
    monkeypatch.setattr(expiry, "LANES_AT_ONCE", 2)
    return SlowStore()


@pytest.fixture
def fake(store: SlowStore) -> FakeWorld:
    fake = FakeWorld(store=store)
    fake.topic(retention_s=300, ordering=Ordering.NONE)
    return fake


def suspend(fake: FakeWorld, name: str, backlog: int, topic: str = "test1") -> None:
    """Create a subscription that is pushed nothing, with a backlog of *backlog* messages."""
    fake.subscribe(name, topic=topic)
    fake.pusher.behaviours[name] = lambda push: GONE
    fake.first_round(*(str(number) for number in range(backlog)), topic=topic)


def lose_lanes(fake: FakeWorld, names: Sequence[str], topic: str = "other") -> None:
    """Block the lanes of some subscribers, and lose the executions that would wake them."""
    fake.topic(topic)
    failing(fake, *names, topic=topic)
    fake.first_round("z", topic=topic)
    fake.workflow.tasks.clear()


def timed_sweep(fake: FakeWorld, store: SlowStore) -> tuple[SweepResult, float]:
    store.clock, store.longest, begun = fake.clock, 0, fake.clock.monotonic()
    swept = fake.sweep(BUDGET_S)
    took_s, store.clock = fake.clock.monotonic() - begun, None
    return swept, took_s


def due_rows(fake: FakeWorld, name: str, topic: str = "test1") -> int:
    """Count the backlog of a subscription."""
    subscription_id = get_subscription(fake.world, topic, name).subscription_id
    return sum(key.pk == f"DUE#{subscription_id}" for key in fake.store.rows)


def test_lost_lanes_of_other_topics_are_restarted_in_the_first_sweep_however_long_a_sleeping_backlog_is(
    fake: FakeWorld, store: SlowStore
) -> None:
    suspend(fake, "gone", 2_000)
    lose_lanes(fake, "abcdefgh")
    fake.clock.sleep(400)

    swept, took_s = timed_sweep(fake, store)

    assert swept.restarted == len(fake.workflow.tasks) == 8
    assert took_s <= BUDGET_S + 1.5, "a page of what has begun, and no more"
    assert 0 < due_rows(fake, "gone") < 2_000, "the backlog is too long for one sweep"
    assert store.longest <= max(20, overdue.LANES_PAGE)
    while due_rows(fake, "gone"):
        before = due_rows(fake, "gone")
        fake.clock.sleep(300)
        timed_sweep(fake, store)
        assert due_rows(fake, "gone") < before


def test_sleeping_lanes_take_turns_so_that_a_short_backlog_is_done_with_beside_a_long_one(
    fake: FakeWorld, store: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "LANES_AT_ONCE", 1)
    fake.topic("long", retention_s=300, ordering=Ordering.NONE)
    suspend(fake, "endless", 2_000, topic="long")
    fake.clock.sleep(1)
    suspend(fake, "short", 30)
    fake.clock.sleep(400)

    timed_sweep(fake, store)

    assert due_rows(fake, "endless", "long")
    assert not due_rows(fake, "short")


def test_topics_follow_one_another_in_a_circle_so_that_each_list_of_retained_messages_is_reached(
    fake: FakeWorld, store: SlowStore
) -> None:
    names = [f"t{number}" for number in range(12)]
    for name in names:
        fake.topic(name, retention_s=60, ordering=Ordering.NONE)
        failing(fake, "A", topic=name)
        fake.publish(*map(str, range(25)), topic=name)
    fake.deliver()
    fake.clock.sleep(60 + expiry.LEFT_S)

    sweeps = 0
    while [key for key in fake.store.rows if key.pk.startswith("RETAINED#")]:
        _, took_s = timed_sweep(fake, store)
        sweeps += 1
        assert took_s <= BUDGET_S + 3
        assert sweeps < 12

    assert sweeps > 1


def test_what_stands_too_far_behind_in_a_backlog_is_left_to_its_lane(
    fake: FakeWorld, store: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "REACH", 1)
    ids = blocked(fake, "1", "2")
    fake.clock.sleep(300 + expiry.LEFT_S)

    assert fake.sweep().expired == 1
    assert fake.sweep().expired == 1

    assert [entry(fake, message_id).state for message_id in ids] == [EntryState.EXPIRED] * 2
    assert not [key for key in fake.store.rows if key.pk.startswith("DUE#")]


def test_the_sweep_reads_a_part_of_the_lanes_of_a_large_topic_at_a_time(fake: FakeWorld, store: SlowStore) -> None:
    [message_id] = blocked(fake, "1")
    group = GroupQueue.of(fake.group("G"))
    fake.group_queues.make(replace(group, subscription_id=lane(fake).subscription_id))
    for number in range(2 * ROWS_AT_ONCE):
        other = replace(lane(fake), subscription_id=f"{topic_id_of(group.subscription_id)}.{number + 10}", wake_at=None)
        store.write(LANES.put(other, "test1", other.subscription_id))
    fake.clock.sleep(300 + expiry.LEFT_S)
    store.most_rows_at_once = 0

    assert fake.sweep().expired == 1
    assert entry(fake, message_id).state is EntryState.EXPIRED
    assert set(fake.group_queues.every()) == {group}
    assert store.most_rows_at_once == ROWS_AT_ONCE


def test_a_queue_whose_group_was_lost_is_deleted_only_after_its_last_entry(fake: FakeWorld) -> None:
    group = GroupQueue.of(fake.group("G"))
    fake.first_round("1")
    lost = [key for key in fake.store.rows if key.table is Table.REGISTRY]
    for key in lost:
        del fake.store.rows[key]
    assert asyncio.run(remove_orphans(fake.world)) == 0

    [entry] = fake.group_queues.receive(group, limit=1, wait_s=0, visibility_timeout_s=1)
    fake.group_queues.delete(group, [entry.receipt])
    assert asyncio.run(remove_orphans(fake.world)) == 1


def test_a_thousand_owed_entries_of_one_message_expire_in_transactions_that_dynamodb_takes(
    fake: FakeWorld, store: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "REACH", 1_000)
    failing(fake, *(f"S{number}" for number in range(250)))
    [message_id] = fake.first_round("1")
    fake.clock.sleep(300 + expiry.LEFT_S)

    assert fake.sweep().expired == 250

    row = row_of(fake, message_id)
    assert (len(row.map.ended), row.has_body) == (250, False)
    assert {(ended.state, ended.attempts) for ended in row.map.ended.values()} == {(EntryState.EXPIRED, 1)}
    assert not [key for key in fake.store.rows if key.pk.startswith(("DUE#", "RETAINED#"))]


def test_a_row_that_cannot_be_written_stops_nothing_else(fake: FakeWorld, store: SlowStore) -> None:
    suspend(fake, "gone", 30)
    lose_lanes(fake, "ab")
    ids = [key.sk.partition("#")[2] for key in store.rows if key.pk.startswith("DUE#")]
    poison = sorted(ids)[3]
    store.refused = {poison}
    fake.clock.sleep(400)

    swept = fake.sweep()

    assert swept.restarted == 2
    assert swept.expired == 29
    assert fake.telemetry.counts["failed"] >= 1
    assert [entry(fake, poison, "gone").state] == [EntryState.EXPIRED]
    assert store.rows[message_key("test1", poison)]["pending"] == 1
    store.refused = set()
    fake.clock.sleep(300)
    assert fake.sweep().expired == 1


def spoil(store: MemoryStore, prefix: str, **change: Any) -> None:
    """Make the first row under *prefix* one that no code of ours has written."""
    key = min((key for key in store.rows if key.pk.startswith(prefix)), key=lambda key: (key.pk, key.sk))
    row = {**store.rows[key], **change}
    store.rows[key] = {name: value for name, value in row.items() if value is not None}


def is_pending(store: MemoryStore, message_id: str) -> bool:
    """Say whether anything of a message is pending; of one that cannot be read all is."""
    try:
        row = whole_message(store, "test1", message_id)
    except (KeyError, ValueError, IndexError):
        return True
    return row is not None and bool(row.map.pending)


def test_each_sweep_changes_its_row_so_that_the_stream_has_something_to_say(fake: FakeWorld) -> None:
    rows = []
    for _ in range(3):
        fake.sweep()
        rows.append(dict(fake.store.rows[sweep_key()]))
        fake.clock.sleep(300)

    assert [row["sweep_count"] for row in rows] == [1, 2, 3]
    assert rows[1] == {**rows[2], "sweep_count": 2}, "nothing else changes in a deployment without work"


@pytest.mark.parametrize(
    ("prefix", "change"),
    [
        ("LANES#test1", {"state": "drowsy"}),
        ("DUE#", {"expires_at": None}),
        ("DUE#", {"attempts": "three"}),
        ("MSG#test1", {"matched": b""}),
        ("MSG#test1", {"ended": b"{"}),
        ("MSG#test1", {"partial": None}),
        ("RETAINED#test1", {"expires_at": None}),
        ("UNSENT#", {"group": None}),
        ("LANES#other", {"generation": None}),
        ("SWEEP", {"topic": "~"}),
    ],
)
def test_an_unreadable_row_stops_nothing_else(
    fake: FakeWorld, store: SlowStore, prefix: str, change: dict[str, Any]
) -> None:
    fake.topic("unsent", ordering=Ordering.NONE)
    fake.subscribe("U", topic="unsent")
    sent = fake.publish_unqueued("1", "2", topic="unsent")
    fake.queue.broken = True
    for message_id in sent:
        relay(fake.world, [MESSAGES.value_of(fake.store.rows[message_key("unsent", message_id)])])
    fake.queue.broken = False
    suspend(fake, "gone", 5)
    lose_lanes(fake, "ab")
    store.write(Put(Key(Table.MESSAGES, "SWEEP", "SWEEP"), {"topic": ""}))
    spoil(store, prefix, **change)
    fake.clock.sleep(300 + expiry.LEFT_S + search.EVERY_S)

    swept = fake.sweep()

    assert swept.restarted >= (2 if "other" not in prefix else 1)
    assert swept.sent >= (2 if "UNSENT" not in prefix else 1)
    ids = [
        str(row["message_id"]) for key, row in store.rows.items() if key.pk.startswith("MSG#test1") and key.sk == "MSG"
    ]
    left = [message_id for message_id in ids if is_pending(store, message_id)]
    assert len(left) <= 1 if prefix != "LANES#test1" else len(left) == 5 or not left


def test_packs_that_begin_with_the_same_message_are_listed_and_sent_side_by_side(fake: FakeWorld) -> None:
    """A repetition whose clock is ahead stores anew what it does not find claimed any more, behind what it finds."""
    packs = [QueueEntry("test1", "1", "1", Audience.EVERYBODY, others) for others in (("2",), ("3",), ())]
    for pack in packs:
        list_unsent(fake.world, pack, fake.clock.now())

    fake.sweep()

    assert sorted(entry.others for entry in fake.queue.entries) == [(), ("2",), ("3",)]
    assert listed(fake) == []


def listed(fake: FakeWorld) -> list[Key]:
    """The keys of what the queue did not take."""
    return [key for key in fake.store.rows if key.pk.startswith("UNSENT#")]


class SharedStore(MemoryStore):
    """A table for many threads; it knows how many were in it at once."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = Lock()
        self.inside = self.most = 0

    def get(self, key: Key) -> Row | None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.002)
        self.inside -= 1
        with self.lock:
            return super().get(key)

    def transact(self, writes: Sequence[Write]) -> None:
        with self.lock:
            super().transact(writes)


def test_pieces_of_the_sweep_are_carried_out_beside_each_other_and_bounded() -> None:
    store = SharedStore()
    fake = FakeWorld(store=store)
    fake.topic(retention_s=300, ordering=Ordering.NONE)
    suspend(fake, "gone", 60)
    lose_lanes(fake, "abcdefgh")
    fake.clock.sleep(400)
    world = replace(fake.world, executor=ThreadExecutor(4))

    store.most = 0
    swept = asyncio.run(sweep(world, BUDGET_S))

    assert (swept.restarted, swept.expired) == (8, 60)
    assert 1 < store.most <= 4


def test_what_the_parts_of_a_sweep_expire_beside_each_other_adds_up(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleeping(*_: object) -> int:
        await fake.clock.pause(1)
        return 3

    async def retained(*_: object) -> tuple[int, str]:
        return 2, ""

    monkeypatch.setattr("tagcast.repairing.sweep.expire_sleeping", sleeping)
    monkeypatch.setattr("tagcast.repairing.sweep.expire_retained", retained)

    assert fake.sweep().expired == 5
    assert fake.telemetry.counts["Expired"] == 5


def test_the_age_of_the_oldest_blocked_head_grows_while_its_receiver_fails_on_schedule(fake: FakeWorld) -> None:
    fake.topic("day", retention_s=86_400, ordering=Ordering.NONE)
    failing(fake, "A", topic="day", strategy=Strategy.EXPONENTIAL_DECAY_RETRY)
    fake.first_round("1", topic="day")
    fake.run_workflows(until=fake.clock.instant + 12 * 3_600_000)

    swept = fake.sweep()

    assert swept.backlogs.oldest_s == 12 * 3_600
    assert swept.oldest_overdue_s < 60


def test_a_head_that_waits_because_somebody_paused_it_rings_no_alarm_and_a_suspended_one_does(fake: FakeWorld) -> None:
    fake.subscribe("A")
    lanes.pause(fake.world, "test1", "A")
    fake.first_round("1")
    fake.clock.sleep(100)
    assert fake.sweep().backlogs.oldest_s == 0

    suspend(fake, "gone", 1)
    fake.clock.sleep(50)
    assert fake.sweep().backlogs.oldest_s == 50


@pytest.mark.parametrize(("scale", "restarted"), [(1.0, 0), (2.0, 0), (5.0, 2), (90.0, 2)])
def test_where_time_is_scaled_a_lane_is_taken_for_lost_sooner(fake: FakeWorld, scale: float, restarted: int) -> None:
    lose_lanes(fake, "ab")
    planned = next(row["next_attempt_at"] for key, row in fake.store.rows.items() if key.pk == "LANES#other")
    fake.clock.instant = planned + 1_000 * overdue.OVERDUE_GRACE_S // 5 + 1
    fake.world = replace(fake.world, time_scale=scale)

    assert fake.sweep().restarted == restarted


def test_of_many_blocked_and_overdue_lanes_the_oldest_is_told_of(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overdue, "HEADS_MAX", 1)
    for topic in "abcdefgh":
        lose_lanes(fake, ["s"], topic)
        fake.clock.sleep(1)
    assert fake.sweep().backlogs.oldest_s == 8

    planned = min(row["wake_at"] for key, row in fake.store.rows.items() if key.pk.startswith("LANES#"))
    fake.clock.instant = planned + 60_000

    assert fake.sweep().oldest_overdue_s == 60


def test_of_a_backlog_in_the_order_of_retries_the_oldest_is_told_and_all_that_expire(fake: FakeWorld) -> None:
    fake.topic("day", retention_s=7_200, ordering=Ordering.NONE)
    failing(fake, "A", topic="day", retry=RetryPolicy(Strategy.INDEPENDENT_RETRY, 176))
    fake.first_round("old", topic="day")
    fake.run_workflows(until=fake.clock.instant + 4_800_000)
    fake.first_round("new", topic="day")

    pending = fake.sweep().backlogs

    assert (pending.expiring, pending.oldest_s) == (1, 4_800)


@pytest.mark.parametrize(("scale", "expiring"), [(1.0, 3), (12.0, 3), (13.0, 0)])
def test_where_time_is_scaled_less_is_about_to_expire(fake: FakeWorld, scale: float, expiring: int) -> None:
    suspend(fake, "gone", 3)
    fake.world = replace(fake.world, time_scale=scale)

    pending = fake.sweep().backlogs

    assert (pending.backlog, pending.expiring) == (3, expiring)


def test_one_sweep_sends_all_that_is_listed_page_by_page(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tagcast.repairing.relay.PAGE", 2)
    ids = [str(number) for number in range(40)]
    for message_id in ids:
        list_unsent(fake.world, QueueEntry("test1", message_id, "its order"), fake.clock.now())

    assert fake.sweep().sent == 40
    assert sorted(entry.message_id for entry in fake.queue.entries) == sorted(ids)
    assert listed(fake) == []


def test_what_the_search_finds_while_the_queue_is_away_is_listed_and_sent_by_the_next_sweep(fake: FakeWorld) -> None:
    fake.topic("day", retention_s=86_400, ordering=Ordering.NONE)
    fake.subscribe("A", topic="day")
    fake.publish_unqueued("1", topic="day")
    fake.queue.broken = True
    fake.clock.sleep(search.OPEN_S + 1)
    assert fake.sweep().sent == 0
    fake.queue.broken = False

    assert fake.sweep().sent == 1
    fake.deliver()
    assert fake.pusher.received["A"] == ["1"]


def test_a_page_of_the_search_with_more_work_than_a_sweep_has_time_for_is_looked_at_again(
    fake: FakeWorld, store: SlowStore
) -> None:
    fake.group("G")
    for _ in range(10):
        fake.publish(*map(str, range(100)))
    fake.deliver()
    fake.clock.sleep(300 + search.OVER_S + 1)

    expired = sweeps = 0
    while expired < 1_000:
        swept, took_s = timed_sweep(fake, store)
        assert took_s <= BUDGET_S + 3
        assert swept.expired > 0
        expired, sweeps = expired + swept.expired, sweeps + 1
    assert sweeps > 1


def lose_seven(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept seven messages that the queue never gets. The search reads two at a time."""
    monkeypatch.setattr("tests.fakes.memory_store.SEARCH_PAGE", 2)
    fake.topic("day", retention_s=86_400, ordering=Ordering.NONE)
    fake.subscribe("A", topic="day")
    fake.publish_unqueued(*map(str, range(7)), topic="day")
    fake.clock.sleep(search.OPEN_S + 1)


def test_the_search_goes_on_where_it_stopped_and_begins_again_after_six_hours(
    fake: FakeWorld, before: Before, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_seven(fake, monkeypatch)
    looked: list[str | None] = []

    def slow(**bounds: Any) -> None:
        looked.append(bounds["cursor"])
        fake.clock.sleep(BUDGET_S / 2 + 1)

    before.each(fake.store, "search", slow)
    assert fake.sweep(BUDGET_S).sent == 4
    assert fake.sweep(BUDGET_S).sent == 3
    assert len(looked) == len(set(looked)) == 4
    assert fake.sweep(BUDGET_S).sent == 0
    assert len(looked) == 4, "the pass is over"
    fake.deliver()
    fake.clock.sleep(search.EVERY_S)
    assert fake.sweep(BUDGET_S).sent == 0
    assert looked[4] is None
    assert fake.pusher.received["A"] == list("0123456")


def test_a_page_that_the_search_cannot_read_costs_no_page_before_it(
    fake: FakeWorld, before: Before, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_seven(fake, monkeypatch)
    asked = count(1)

    def throttle(**bounds: Any) -> None:
        if next(asked) % 2 == 0:
            raise ConnectionError

    before.each(fake.store, "search", throttle)
    assert [fake.sweep().sent for _ in range(4)] == [2, 2, 2, 1]


def test_topics_are_read_a_page_at_a_time(fake: FakeWorld, store: SlowStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        fake.topic(f"t{number}", retention_s=60)
    pages: list[int] = []
    query = SlowStore.query

    def told(self: SlowStore, table: Table, pk: str, **bounds: Any) -> list[Row]:
        rows = query(self, table, pk, **bounds)
        if pk == "TOPICS" and bounds["limit"] == 2:  # What looks at all topics for other reasons has pages of its own.
            pages.append(len(rows))
        return rows

    monkeypatch.setattr(SlowStore, "query", told)
    fake.sweep()

    assert pages == [2, 2, 2, 2, 2, 0]


def test_a_page_of_retained_messages_that_cannot_be_written_hides_none_of_those_behind_it(
    fake: FakeWorld, store: SlowStore
) -> None:
    ids = blocked(fake, *map(str, range(45)))
    store.refused = set(ids[:20])
    fake.clock.sleep(300 + expiry.LEFT_S)

    assert fake.sweep().expired == 25


def test_the_subscriptions_of_many_expired_deliveries_are_read_together(fake: FakeWorld, store: SlowStore) -> None:
    settings = fake.group("g").settings
    for number in range(expiry.ALONE_MAX):
        fake.group(f"g{number}")
    fake.topic("dead")
    with_letters = replace(settings, dead_letter_topic="dead", dead_letter_expired=True)
    put_subscription(fake.world, "test1", "g", with_letters)
    fake.first_round("1")
    fake.clock.sleep(300 + search.OVER_S + 1)
    store.clock = fake.clock
    began_s = fake.clock.monotonic()

    assert fake.sweep().expired == expiry.ALONE_MAX + 1
    assert fake.clock.monotonic() < began_s + 5
    assert sum(key.pk.startswith("MSG#dead#") for key in fake.store.rows) == 1


def test_retained_messages_of_a_longer_retention_hide_no_shorter_lives(fake: FakeWorld) -> None:
    fake.topic(retention_s=86_400)
    blocked(fake, *map(str, range(expiry.RETAINED_PAGE * (expiry.QUIET_PAGES_MAX - 1))))
    fake.topic(retention_s=60)
    fake.first_round("short")
    fake.clock.sleep(60 + expiry.LEFT_S)

    assert fake.sweep().expired == 1


@pytest.mark.parametrize(
    ("scale", "open_s", "over_s"), [(1.0, 900, 3_600), (4.0, 225, 900), (30.0, 180, 120), (90.0, 180, 60)]
)
def test_where_time_is_scaled_the_search_takes_messages_for_lost_sooner(
    fake: FakeWorld, before: Before, scale: float, open_s: int, over_s: int
) -> None:
    asked: list[dict[str, Any]] = []
    before.each(fake.store, "search", lambda **bounds: asked.append(bounds))
    fake.world = replace(fake.world, time_scale=scale)
    fake.sweep()

    [bounds] = asked
    assert fake.clock.now() - bounds["open_before"] == open_s * 1_000
    assert fake.clock.now() - bounds["over_before"] == over_s * 1_000


def lose_ten_in_one_shard(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose ten lanes of one shard, of which three are read at once."""
    monkeypatch.setattr(overdue, "LANES_PAGE", 3)
    monkeypatch.setattr(overdue, "WAKE_SHARDS", 1)
    monkeypatch.setattr("tagcast.rows.lane.WAKE_SHARDS", 1)
    lose_lanes(fake, [f"s{number}" for number in range(10)])
    fake.clock.sleep(60)


def test_one_sweep_looks_at_so_many_lanes_of_a_shard_and_no_more(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overdue, "LANES_MAX", 6)
    lose_ten_in_one_shard(fake, monkeypatch)

    assert fake.sweep().restarted == 6


def test_lanes_are_looked_at_until_their_share_of_the_time_is_over(
    fake: FakeWorld, before: Before, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_ten_in_one_shard(fake, monkeypatch)
    before.each(fake.store, "lanes_to_wake", lambda *place, **bounds: fake.clock.sleep(3))

    assert fake.sweep(BUDGET_S).restarted == 6


def test_a_backlog_that_cannot_be_read_hides_no_other_of_the_same_messages(
    fake: FakeWorld, store: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(fake, *"AB")
    ids = fake.first_round("1", "2")
    fake.clock.sleep(300 + expiry.LEFT_S)
    unreadable = min(key.pk for key in store.rows if key.pk.startswith("DUE#"))

    def refuse(table: Table, pk: str, **bounds: Any) -> None:
        if pk == unreadable:
            raise UnavailableError

    with monkeypatch.context() as unread:
        Before(unread).each(store, "query", refuse)
        assert fake.sweep().expired == 2

    assert [entry(fake, message_id, "B").state for message_id in ids] == [EntryState.EXPIRED] * 2
    assert all(store.rows[message_key("test1", message_id)]["pending"] == 1 for message_id in ids)


def test_what_could_not_expire_for_others_write_it_is_looked_at_by_the_next_sweep(
    fake: FakeWorld, store: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspend(fake, "gone", 3)
    fake.clock.sleep(320)
    crowded = min(key.sk.partition("#")[2] for key in store.rows if key.pk.startswith("DUE#"))

    def lose(writes: Sequence[Write]) -> None:
        if any(write.key.pk == message_key("test1", crowded).pk for write in writes):
            raise ConditionLostError

    with monkeypatch.context() as others:
        others.setattr(store, "before_transact", lose)
        assert fake.sweep().expired == 2

    assert fake.sweep().expired == 1


def test_what_is_owed_without_a_lane_or_a_due_row_expires_without_an_attempt(fake: FakeWorld, store: SlowStore) -> None:
    [message_id] = blocked(fake, "1")
    for key in [key for key in store.rows if key.pk.startswith(("DUE#", "LANES#"))]:
        del store.rows[key]
    fake.clock.sleep(300 + expiry.LEFT_S)

    assert fake.sweep().expired == 1
    assert (entry(fake, message_id).state, entry(fake, message_id).attempts) == (EntryState.EXPIRED, 0)


def test_where_time_is_scaled_what_is_retained_is_left_to_its_lanes_for_a_shorter_while(fake: FakeWorld) -> None:
    blocked(fake, "1")
    fake.world = replace(fake.world, time_scale=30.0)
    fake.clock.sleep(300 + expiry.LEFT_S / 5 - 1)
    assert fake.sweep().expired == 0
    fake.clock.sleep(2)

    assert fake.sweep().expired == 1


def test_an_empty_backlog_has_no_age(fake: FakeWorld) -> None:
    fake.subscribe("A")
    lanes.pause(fake.world, "test1", "A")
    row = next(row for key, row in fake.store.rows.items() if key.pk.startswith("LANES#"))
    row.update({"state": "blocked", "wake_at": fake.clock.now() + 60_000, "wake_shard": "0"})

    assert fake.sweep().backlogs.oldest_s == 0
