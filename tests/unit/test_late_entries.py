"""Groups that consume from an earlier instant: what was kept joins their backlog once, in order, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tagcast.delivery import publishing
from tagcast.errors import ConflictError, NotFoundError
from tagcast.model import Draft, EntryState, Keep
from tagcast.operating import lanes
from tagcast.operating.explaining import explain
from tagcast.operating.messages import message_view
from tagcast.ports import Page, Put, Row, Update, Write
from tagcast.pulling.acknowledge import acknowledge
from tagcast.pulling.pull import PullRequest, pull
from tagcast.registry import topics
from tagcast.registry.groups import FILLING_MAX, PUBLISHED_S
from tagcast.registry.subscriptions import delete_subscription
from tagcast.rows import stored

from tests.fakes.memory_store import MemoryStore
from tests.fakes.world import FakeWorld
from tests.unit.worlds import row_of

EARLIEST = 0
NOW = 1_800_000_000_000


class RacingStore(MemoryStore):
    """Lets a rival be faster than a write: than one that adds late entries, or *before* another one."""

    rival: Callable[[], object] | None = None
    before: Callable[[Write], bool] = staticmethod(lambda write: isinstance(write, Update) and "late" in write.changes)

    def transact(self, writes: Sequence[Write]) -> None:
        rival = self.rival
        if rival is not None and any(map(self.before, writes)):
            self.rival = None
            rival()
        super().transact(writes)


@pytest.fixture
def store() -> RacingStore:
    return RacingStore()


@pytest.fixture
def fake(store: RacingStore) -> FakeWorld:
    fake = FakeWorld(store=store)
    fake.topic(retention_s=3_600)
    fake.subscribe("asleep")
    lanes.pause(fake.world, "test1", "asleep")
    return fake


def work(fake: FakeWorld, seconds: int = 2 * PUBLISHED_S) -> None:
    fake.run_workflows(fake.clock.instant + seconds * 1_000)


def fill(fake: FakeWorld, **settings: Any) -> None:
    """Create the group late from the earliest on, and work until it is filled."""
    fake.group("late", start_from=EARLIEST, **settings)
    work(fake)


def pulled(fake: FakeWorld, name: str = "late", topic: str = "test1") -> list[str]:
    """Pull and acknowledge all there is; return the bodies."""
    bodies: list[str] = []
    wish = PullRequest(32, 0, 60, lambda handed: 1, 10**6, 10**9, 1)
    while handed := pull(fake.world, topic, name, wish):
        bodies += [each.attempt.message.draft.body.decode() for each in handed]
        acknowledge(fake.world, topic, name, [each.receipt_handle for each in handed])
    return bodies


@pytest.mark.parametrize(
    ("start_from", "given"), [(None, ["4"]), (EARLIEST, ["1", "2", "3", "4"]), (NOW + 10_000, ["3", "4"])]
)
def test_a_new_group_gets_what_is_kept_in_its_order_and_then_what_is_published(
    fake: FakeWorld, start_from: int | None, given: list[str]
) -> None:
    fake.publish("1", "2")
    fake.clock.sleep(10)
    fake.first_round("3")
    fake.group("late", ordered=True, start_from=start_from)
    fake.first_round("4")
    work(fake)
    assert pulled(fake) == given
    assert fake.telemetry.counts["LateEntries"] == len(given) - 1


def test_both_deliveries_of_a_name_are_shown_and_the_newer_one_is_explained(fake: FakeWorld) -> None:
    fake.subscribe("late")
    lanes.pause(fake.world, "test1", "late")
    [message_id] = fake.first_round("1")
    [former] = [each.ordinal for each in stored.subscriptions(fake.store, "test1", ["late"]).values()]
    delete_subscription(fake.world, "test1", "late")
    fill(fake)
    assert pulled(fake) == ["1"]

    view = message_view(fake.world, "test1", message_id)
    states = {name: entry.state for name, entry in view.subscribers.items()}
    assert states == {
        "asleep": EntryState.BLOCKED,
        "late": EntryState.DELIVERED,
        f"late#{former}": EntryState.CANCELLED,
    }
    assert view.counts == dict.fromkeys(states.values(), 1)
    told = explain(fake.world, "test1", message_id, "late")
    assert (told["existed"], told["received"]) == (False, True)
    earlier = explain(fake.world, "test1", message_id, f"late#{former}")
    assert (earlier["existed"], earlier["received"]) == (True, False)
    assert earlier["delivery"]["lane"] == "removed"  # type: ignore[index]
    for wrong in (f"asleep#{former}", "late#77"):
        with pytest.raises(NotFoundError):
            explain(fake.world, "test1", message_id, wrong)


def test_a_late_entry_is_matched_by_the_groups_filter_and_says_when_and_by_which_version(fake: FakeWorld) -> None:
    [apple] = fake.publish("apple", tags=["apple"])
    [pear] = fake.first_round("pear", tags=["pear"])
    fill(fake, filter={"kind": "tags", "tags": ["apple"]})
    entry = message_view(fake.world, "test1", apple).subscribers["late"]
    assert (entry.state, entry.filter_version) == (EntryState.PENDING, 2)
    assert entry.added_at is not None
    assert entry.added_at >= fake.clock.now() - 2 * PUBLISHED_S * 1_000
    assert "late" not in message_view(fake.world, "test1", pear).subscribers
    told = explain(fake.world, "test1", apple, "late")
    assert (told["existed"], told["received"]) == (False, False)
    assert "the group was created after the message, which was added at" in str(told["reason"])
    assert explain(fake.world, "test1", pear, "late")["reason"] == (
        "the group was created after the message was accepted. Its start_from includes the message, but the message "
        "was not added: the filter did not match, the body was deleted, or the group is still filling"
    )
    assert pulled(fake) == ["apple"]
    assert explain(fake.world, "test1", apple, "late")["received"]


def test_what_nobody_is_owed_any_more_is_gone_for_a_new_group(fake: FakeWorld) -> None:
    delete_subscription(fake.world, "test1", "asleep")
    [message_id] = fake.first_round("1")
    fill(fake)
    assert pulled(fake) == []
    assert message_view(fake.world, "test1", message_id).state == "unmatched"


def test_a_topic_that_keeps_for_life_gives_a_new_group_what_all_others_have_and_nobody_wanted(fake: FakeWorld) -> None:
    fake.topic("kept", keep=Keep.LIFE)
    fake.subscribe("tagged", "apple", topic="kept")
    [read] = fake.publish("read", tags=["apple"], topic="kept")
    [unread] = fake.first_round("unread", topic="kept")
    assert {message_view(fake.world, "kept", each).state for each in (read, unread)} == {"kept"}
    fill(fake, topic="kept")
    assert message_view(fake.world, "kept", read).state == "retained"
    assert sorted(pulled(fake, topic="kept")) == ["read", "unread"]
    assert message_view(fake.world, "kept", read).state == "kept"


def test_a_body_that_is_kept_goes_with_the_life_of_its_message(fake: FakeWorld) -> None:
    fake.topic(retention_s=3_600, keep=Keep.LIFE)
    [wanted] = fake.first_round("wanted")
    lanes.resume(fake.world, "test1", "asleep")
    work(fake)
    assert message_view(fake.world, "test1", wanted).body == b"wanted"
    fake.clock.sleep(3_600)
    assert message_view(fake.world, "test1", wanted).body is None
    fake.clock.sleep(6 * 3_600)
    fake.sweep()
    row = row_of(fake, wanted)
    assert (row.has_body, row.is_kept) == (False, False)
    assert message_view(fake.world, "test1", wanted).state == "deleted"


def test_a_first_round_after_a_late_entry_leaves_the_message_its_body(fake: FakeWorld) -> None:
    delete_subscription(fake.world, "test1", "asleep")
    fake.subscribe("awake")
    [message_id] = fake.publish("1")
    fill(fake)
    fake.deliver()
    assert fake.pusher.received == {"awake": ["1"]}
    assert message_view(fake.world, "test1", message_id).state == "retained"
    assert pulled(fake) == ["1"]
    fake.relay_ends()
    assert message_view(fake.world, "test1", message_id).state == "deleted"


def test_a_repeated_entry_of_a_completed_message_with_a_late_entry_finds_nothing_to_close(
    fake: FakeWorld, store: RacingStore
) -> None:
    def die() -> None:
        raise OSError

    fake.topic(retention_s=3_600, keep=Keep.LIFE)
    lanes.resume(fake.world, "test1", "asleep")
    fake.fail("asleep")
    [message_id] = fake.publish("1")
    store.before, store.rival = lambda write: isinstance(write, Update) and "round" in write.changes, die
    with pytest.raises(OSError):
        fake.deliver()
    del fake.pusher.behaviours["asleep"]
    work(fake)
    fake.relay_ends()
    assert message_view(fake.world, "test1", message_id).state == "kept"
    fill(fake)
    fake.fan_out("test1", [message_id])
    assert pulled(fake) == ["1"]
    assert fake.pusher.received == {"asleep": ["1"]}


def test_what_is_accepted_while_the_group_is_made_is_its_once(fake: FakeWorld, store: RacingStore) -> None:
    store.before = lambda write: isinstance(write, Put) and "body" in write.row
    store.rival = lambda: fake.group("late", start_from=EARLIEST)
    [unaware] = fake.publish("unaware")
    [aware] = fake.publish("aware")
    assert ["late" in message_view(fake.world, "test1", each).subscribers for each in (unaware, aware)] == [False, True]
    fake.deliver()
    work(fake)
    assert pulled(fake) == ["unaware", "aware"]


def test_nothing_is_looked_for_before_every_publish_is_over_that_did_not_know_the_group(fake: FakeWorld) -> None:
    made_at = fake.clock.now()
    fake.group("late", start_from=EARLIEST)
    [task] = [task for task in fake.workflow.tasks if task.topic == "test1"][-1:]
    fake.clock.sleep(PUBLISHED_S - 15)
    assert fake.redeliver(task).wait_until == made_at + PUBLISHED_S * 1_000


def test_whoever_is_matched_by_publication_is_not_added_again_whatever_its_filter_is_by_now(fake: FakeWorld) -> None:
    fake.group("late", filter={"kind": "tags", "tags": ["apple"]}, start_from=EARLIEST)
    [apple] = fake.publish("apple", tags=["apple"])
    [pear] = fake.first_round("pear", tags=["pear"])
    fill(fake)
    assert pulled(fake) == ["apple"]
    assert not row_of(fake, apple).map.added_later
    assert "late" not in message_view(fake.world, "test1", pear).subscribers


def test_a_worker_that_dies_leaves_the_rest_to_the_next_one(fake: FakeWorld, store: RacingStore) -> None:
    fake.first_round(*map(str, range(30)))
    group = fake.group("late", ordered=True, start_from=EARLIEST)
    store.kept_page = 4

    def dies() -> None:
        if len(stored.dues(store, group.subscription_id)) >= 10:
            raise KeyboardInterrupt
        store.rival = dies

    store.rival = dies
    with pytest.raises(KeyboardInterrupt):
        work(fake)
    assert pulled(fake) == []
    fake.clock.sleep(300)
    fake.sweep()
    work(fake)
    assert pulled(fake) == [str(number) for number in range(30)]


def test_a_message_that_others_write_just_then_is_added_once_they_are_done(fake: FakeWorld, store: RacingStore) -> None:
    ids = fake.first_round(*map(str, range(5)))
    fake.group("late", ordered=True, start_from=EARLIEST)

    def skip() -> None:
        lanes.skip_head(fake.world, "test1", "asleep", "in the way")
        fake.relay_ends()

    store.rival = skip
    work(fake)
    assert pulled(fake) == ["1", "2", "3", "4"]
    assert row_of(fake, ids[0]).map.matched == {0}


def test_a_stale_worker_adds_nothing(fake: FakeWorld, store: RacingStore) -> None:
    ids = fake.first_round("1", "2")
    group = fake.group("late", start_from=EARLIEST)
    store.rival = lambda: delete_subscription(fake.world, "test1", "late")
    work(fake)
    assert not [each for each in ids if group.ordinal in row_of(fake, each).map.matched]
    assert not stored.dues(store, group.subscription_id)


def test_what_was_added_is_cancelled_with_the_group(fake: FakeWorld) -> None:
    [message_id] = fake.first_round("1")
    group = fake.group("late", start_from=EARLIEST)
    fake.group_queues.broken = True
    work(fake)
    delete_subscription(fake.world, "test1", "late")
    fake.group_queues.broken = False
    work(fake)
    assert row_of(fake, message_id).map.entry(group.ordinal).state is EntryState.CANCELLED


def test_a_paused_group_goes_on_where_it_was(fake: FakeWorld) -> None:
    fake.first_round("1")
    fake.group("late", start_from=EARLIEST)
    lanes.pause(fake.world, "test1", "late")
    fake.clock.sleep(2 * PUBLISHED_S)
    work(fake)
    fake.sweep()
    assert pulled(fake) == []
    lanes.resume(fake.world, "test1", "late")
    work(fake)
    assert pulled(fake) == ["1"]


def test_retrying_now_does_not_begin_too_early(fake: FakeWorld) -> None:
    fake.first_round("1")
    group = fake.group("late", start_from=EARLIEST)
    lanes.retry_now(fake.world, "test1", "late")
    work(fake, 5)
    assert not stored.dues(fake.store, group.subscription_id)
    lane = stored.lane(fake.store, "test1", group.subscription_id)
    assert lane is not None
    assert lane.is_filling


def test_replays_are_for_those_for_whom_they_were_published(fake: FakeWorld) -> None:
    original = publishing.ArchivedOriginal(Draft(b"again"), "0" * 20)
    publishing.replay(fake.world, "test1", "asleep", [original])
    fake.deliver()
    fill(fake)
    assert pulled(fake) == []


@pytest.mark.parametrize(
    "filter", [{"kind": "function", "function": "f"}, {"kind": "event_pattern", "pattern": {"price": [7]}}]
)
def test_a_filter_that_reads_bodies_decides_about_late_entries(fake: FakeWorld, filter: dict[str, object]) -> None:
    fake.first_round('{"price": 7}', '{"price": 8}', "no JSON")
    fake.filter_functions.behaviours["late"] = lambda messages: tuple(b"7" in each.draft.body for each in messages)
    fill(fake, filter=filter)
    assert pulled(fake) == ['{"price": 7}']


def test_what_an_earlier_topic_of_that_name_left_is_none_of_this_one(fake: FakeWorld) -> None:
    fake.topic("again", keep=Keep.LIFE)
    fake.publish("of the first", topic="again")
    fake.clock.sleep(1)
    topics.delete_topic(fake.world, "again")
    fake.clock.sleep(1)
    fake.topic("again", keep=Keep.LIFE)
    fill(fake, topic="again")
    assert pulled(fake, topic="again") == []


def test_a_message_gets_no_more_late_entries_than_its_row_has_room_for(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tagcast.delivery.filling.LATE_MAX", 2)
    [message_id] = fake.first_round("1")
    for name in ("one", "two", "three"):
        fake.group(name, start_from=EARLIEST)
    work(fake)
    assert [pulled(fake, name) for name in ("one", "two", "three")] == [["1"], ["1"], []]
    assert len(row_of(fake, message_id).map.added_later) == 2


def test_a_topic_fills_ten_groups_a_day_also_if_it_is_made_again(fake: FakeWorld) -> None:
    delete_subscription(fake.world, "test1", "asleep")
    for _ in range(FILLING_MAX):
        fake.group("late", start_from=EARLIEST)
        delete_subscription(fake.world, "test1", "late")
    fake.group("late")
    delete_subscription(fake.world, "test1", "late")
    # The tests begin at 2027-01-15T08:00:00Z; a tenth of a day is 2 hours and 24 minutes.
    with pytest.raises(ConflictError, match=r"at most 10 groups at once .* after 2027-01-15T10:24:00.000Z, or"):
        fake.group("late", start_from=EARLIEST)

    fake.clock.sleep(86_400 // FILLING_MAX)
    fake.group("late", start_from=EARLIEST)
    delete_subscription(fake.world, "test1", "late")
    topics.delete_topic(fake.world, "test1")
    fake.topic()
    with pytest.raises(ConflictError, match="at most 10 groups at once"):
        fake.group("late", start_from=EARLIEST)
    fake.topic("other")
    fake.group("late", topic="other", start_from=EARLIEST)


def test_keeping_for_life_costs_one_write_more_for_each_message(fake: FakeWorld) -> None:
    written = []
    for keep in Keep:
        fake.topic(keep.value, keep=keep)
        fake.subscribe("pushed", topic=keep.value)
        before = fake.store.writes
        fake.first_round("1", "2", "3", topic=keep.value)
        fake.clock.sleep(2 * 86_400)
        fake.sweep()
        written.append(fake.store.writes - before)
    pending, life = written
    assert life - pending == 3


def test_a_long_look_keeps_its_lane_and_goes_on_in_the_next_invocation_where_it_was(
    fake: FakeWorld, store: RacingStore
) -> None:
    fake.topic("other", keep=Keep.LIFE)
    fake.publish(*map(str, range(60)), topic="other")
    fake.first_round("kept")
    group = fake.group("late", ordered=True, start_from=EARLIEST)
    asked: list[str | None] = []

    def slow(topic: str, *, cursor: str | None, **bounds: int) -> Page[Row]:
        """Take five seconds, on a lane that nobody has to take over."""
        lane = stored.lane(store, topic, group.subscription_id)
        assert lane is not None
        assert lane.wake_at is not None
        assert lane.wake_at > fake.clock.now()
        asked.append(cursor)
        fake.clock.sleep(5)
        return MemoryStore.find_kept(store, topic, cursor=cursor, **bounds)

    store.kept_page = 3
    object.__setattr__(store, "find_kept", slow)
    work(fake, 600)
    assert len(asked) == len(set(asked)) == 21
    assert pulled(fake) == ["kept"]
