"""What operators see of lanes, and what their commands do to them."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tagcast.delivery.lease import Task
from tagcast.errors import ConflictError, NotFoundError
from tagcast.model import EntryState, LaneState, Outcome, RetryPolicy, Strategy
from tagcast.operating import lanes, messages
from tagcast.operating.lanes import LIST_COUNTED_MAX, DueDelivery, LaneView
from tagcast.ports import World
from tagcast.registry import subscriptions
from tagcast.registry.subscriptions import put_subscription
from tagcast.rows import lane_transitions
from tagcast.rows.keys import lane_key
from tagcast.rows.lane import LANES
from tagcast.rows.stored import ROWS_AT_ONCE

from tests.fakes.world import FakeWorld
from tests.unit.worlds import changing, entry, failing, lane, lane_if_any

NOW = 1_800_000_000_000
DECAY = Strategy.EXPONENTIAL_DECAY_RETRY
DAY_MS = 86_400_000


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    fake.subscribe("A")
    return fake


def view(fake: FakeWorld, name: str = "A") -> LaneView:
    return lanes.lane_view(fake.world, subscriptions.get_subscription(fake.world, "test1", name))


def head_of(fake: FakeWorld) -> DueDelivery:
    head = view(fake).head
    assert head is not None
    return head


def block(fake: FakeWorld, *bodies: str, name: str = "A") -> list[str]:
    fake.fail(name)
    return fake.first_round(*bodies)


def test_a_lane_without_a_row_is_active_and_owes_nothing(fake: FakeWorld) -> None:
    assert view(fake) == LaneView(LaneState.ACTIVE, 0, None, False)
    assert lanes.backlog(fake.world, "test1", "A", 10, None).items == ()


def test_a_blocked_lane_shows_its_head_with_its_attempts_and_its_plan(fake: FakeWorld) -> None:
    first, _ = block(fake, "1", "2")

    head = DueDelivery(
        message_id=first,
        state=EntryState.BLOCKED,
        attempts=1,
        next_attempt_at=NOW + 15_000,
        expires_at=NOW + DAY_MS,
        last_attempt_at=NOW,
        last_outcome="http 500",
        position="00000000000000000000",
    )
    assert view(fake) == LaneView(LaneState.BLOCKED, 2, head)


def test_while_an_attempt_is_under_way_no_next_one_is_planned(fake: FakeWorld) -> None:
    block(fake, "1")
    before = lane(fake)
    _, claim = lane_transitions.claim(before, NOW + 45_000)
    fake.store.write(claim)

    during = head_of(fake)
    fake.store.write(
        lane_transitions.plan(LANES.value_of(fake.store.rows[before.key]), NOW + 1_000, None, before.state)
    )

    assert (during.next_attempt_at, head_of(fake).next_attempt_at) == (None, NOW + 1_000)


def test_a_sleeping_lane_has_no_plan_and_an_expired_head_is_shown_as_that(fake: FakeWorld) -> None:
    block(fake, "1")
    lanes.pause(fake.world, "test1", "A")
    fake.clock.sleep(86_399.999)
    head = head_of(fake)
    assert (head.state, head.next_attempt_at) == (EntryState.BLOCKED, None)

    fake.clock.sleep(0.001)

    assert head_of(fake).state is EntryState.EXPIRED


def test_a_backlog_is_read_page_by_page_and_only_its_head_has_a_plan(fake: FakeWorld) -> None:
    ids = block(fake, *"12345")
    first = lanes.backlog(fake.world, "test1", "A", 2, None)
    rest = lanes.backlog(fake.world, "test1", "A", 3, first.cursor)

    assert [due.message_id for due in (*first.items, *rest.items)] == ids
    assert [due.next_attempt_at for due in (*first.items, *rest.items)] == [NOW + 15_000, None, None, None, None]
    assert rest.cursor is None


def test_lanes_of_many_subscriptions_are_read_at_once_and_long_backlogs_counted_as_far_as_it_pays(
    fake: FakeWorld,
) -> None:
    fake.subscribe("B")
    block(fake, *map(str, range(9)))
    key, due = next((key, row) for key, row in fake.store.rows.items() if key.pk.startswith("DUE#"))
    for number in range(LIST_COUNTED_MAX - 9):
        position = f"{10_000 + number:020d}"
        fresh = type(key)(key.table, key.pk, f"{position}#{number:020d}")
        fake.store.rows[fresh] = {**due, "sk": fresh.sk}
    both = [subscriptions.get_subscription(fake.world, "test1", name) for name in "AB"]

    blocked, active = lanes.lane_views(fake.world, "test1", both)

    assert active == LaneView(LaneState.ACTIVE, 0, None)
    assert (blocked.state, blocked.backlog, blocked.has_more) == (LaneState.BLOCKED, LIST_COUNTED_MAX, False)
    more = type(key)(key.table, key.pk, f"{'9' * 20}#1")
    fake.store.rows[more] = {**due, "sk": more.sk}
    for told in (lanes.lane_views(fake.world, "test1", both)[0], lanes.resume(fake.world, "test1", "A")):
        assert (told.backlog, told.has_more) == (LIST_COUNTED_MAX, True)
    assert (view(fake).backlog, view(fake).has_more) == (LIST_COUNTED_MAX + 1, False)


@pytest.mark.parametrize("state", [LaneState.PAUSED, LaneState.SUSPENDED])
def test_pausing_a_sleeping_lane_changes_nothing(fake: FakeWorld, state: LaneState) -> None:
    if state is LaneState.PAUSED:
        lanes.pause(fake.world, "test1", "A")
    else:
        fake.pusher.behaviours["A"] = lambda push: Outcome(False, "http 410", gone=True)
        fake.first_round("1")
    before = lane_if_any(fake)

    assert lanes.pause(fake.world, "test1", "A").state is state

    assert lane_if_any(fake) == before


def test_resuming_an_empty_lane_makes_it_active_and_starts_nothing(fake: FakeWorld) -> None:
    lanes.pause(fake.world, "test1", "A")

    assert lanes.resume(fake.world, "test1", "A") == LaneView(LaneState.ACTIVE, 0, None)
    assert lane_if_any(fake) is None
    assert fake.workflow.tasks == []


@pytest.mark.parametrize(
    ("strategy", "fails_first", "state"),
    [
        (Strategy.BACKOFF_RETRY, True, LaneState.BLOCKED),
        (DECAY, True, LaneState.LOST_CONTACT),
        (DECAY, False, LaneState.BLOCKED),
    ],
)
def test_resuming_goes_on_as_the_head_says_under_a_new_generation(
    fake: FakeWorld, strategy: Strategy, fails_first: bool, state: LaneState
) -> None:
    made = fake.subscribe("B", strategy=strategy)
    if not fails_first:
        lanes.pause(fake.world, "test1", "B")
    block(fake, "1", name="B")
    lanes.pause(fake.world, "test1", "B")
    fake.workflow.tasks.clear()

    assert lanes.resume(fake.world, "test1", "B").state is state

    awake = lane(fake, "B")
    assert fake.workflow.tasks == [Task("test1", made.subscription_id, awake.generation)]


def test_resuming_keeps_the_plan_until_it_is_over(fake: FakeWorld) -> None:
    block(fake, "1")
    planned = head_of(fake)
    assert planned.next_attempt_at is not None
    assert planned.next_attempt_at > NOW

    for now in (NOW, planned.next_attempt_at + 5):
        lanes.pause(fake.world, "test1", "A")
        fake.clock.instant = now
        lanes.resume(fake.world, "test1", "A")
        assert head_of(fake).next_attempt_at == max(now, planned.next_attempt_at)


def test_resuming_an_awake_lane_changes_nothing(fake: FakeWorld) -> None:
    block(fake, "1")
    before, tasks = lane_if_any(fake), list(fake.workflow.tasks)

    assert lanes.resume(fake.world, "test1", "A").state is LaneState.BLOCKED
    assert (lane_if_any(fake), fake.workflow.tasks) == (before, tasks)


def test_retrying_now_plans_the_head_for_now_under_a_new_generation(fake: FakeWorld) -> None:
    block(fake, "1")
    old = lane(fake)
    fake.clock.sleep(3)
    fake.workflow.tasks.clear()

    lanes.retry_now(fake.world, "test1", "A")

    moved = lane(fake)
    assert moved.next_attempt_at == moved.wake_at == NOW + 3_000
    assert (moved.state, moved.appended, moved.claim) == (old.state, old.appended, old.claim)
    assert moved.generation > old.generation
    assert [task.generation for task in fake.workflow.tasks] == [moved.generation]


def test_an_active_lane_has_nothing_to_be_retried_and_a_sleeping_one_has_to_be_resumed_first(fake: FakeWorld) -> None:
    assert lanes.retry_now(fake.world, "test1", "A").state is LaneState.ACTIVE
    assert lane_if_any(fake) is None
    lanes.pause(fake.world, "test1", "A")

    with pytest.raises(ConflictError, match="resume it first"):
        lanes.retry_now(fake.world, "test1", "A")


def test_a_retry_of_a_topic_leaves_out_endpoints_that_are_not_verified(fake: FakeWorld) -> None:
    block(fake, "1")
    known = subscriptions.get_subscription(fake.world, "test1", "A")
    put_subscription(fake.world, "test1", "A", replace(known.settings, unverified="http 404"))

    assert lanes.retry_topic(fake.world, "test1") == ()


def test_a_topic_is_re_pushed_to_those_that_are_blocked_under_backoff(fake: FakeWorld) -> None:
    fake.subscribe("B")
    fake.subscribe("C", strategy=DECAY)
    fake.subscribe("D")
    fake.subscribe("E", strategy=DECAY)
    lanes.pause(fake.world, "test1", "E")
    fake.fail(*"ABC")
    fake.first_round("1")
    lanes.pause(fake.world, "test1", "B")
    assert lanes.resume(fake.world, "test1", "E").state is LaneState.BLOCKED
    fake.clock.sleep(1)

    assert lanes.retry_topic(fake.world, "test1") == ("A",)

    assert lane(fake).next_attempt_at == NOW + 1_000
    assert lane_if_any(fake, "D") is None


def test_a_topic_with_many_blocked_lanes_is_retried_part_by_part(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(fake, *"ABCDE")
    fake.first_round("1")
    seconds = iter(range(1_000))
    monkeypatch.setattr(type(fake.clock), "monotonic", lambda clock: next(seconds) * lanes.CHANGED_WITHIN_S / 3.5)
    parts = []
    for _ in range(3):
        fake.clock.sleep(1)
        parts.append(lanes.retry_topic(fake.world, "test1"))
    assert [len(part) for part in parts] == [2, 2, 2]
    assert sorted({name for part in parts for name in part}) == list("ABCDE")


def test_a_large_topic_is_retried_although_its_subscriptions_keep_changing(fake: FakeWorld) -> None:
    block(fake, "1")
    fake.clock.sleep(1)

    with changing(fake):
        assert lanes.retry_topic(fake.world, "test1") == ("A",)


def test_a_retry_of_a_topic_that_does_not_exist_is_refused(fake: FakeWorld) -> None:
    with pytest.raises(NotFoundError):
        lanes.retry_topic(fake.world, "test2")


def test_skipping_cancels_the_head_with_its_reason_and_plans_the_next_for_now(fake: FakeWorld) -> None:
    first, second = block(fake, "1", "2")
    fake.clock.sleep(2)
    fake.workflow.tasks.clear()

    shown = lanes.skip_head(fake.world, "test1", "A", "poison")

    assert shown.head is not None
    assert (shown.backlog, shown.head.message_id, shown.head.next_attempt_at) == (1, second, NOW + 2_000)
    skipped = entry(fake, first)
    assert (skipped.state, skipped.attempts, skipped.last_outcome) == (EntryState.CANCELLED, 1, "skipped: poison")
    moved = lane(fake)
    assert moved.wake_at == NOW + 2_000
    assert [task.generation for task in fake.workflow.tasks] == [moved.generation]


def test_skipping_while_the_lane_sleeps_leaves_it_asleep_and_what_is_behind_is_due_with_the_resumption(
    fake: FakeWorld,
) -> None:
    fake.pusher.behaviours["A"] = lambda push: Outcome(False, "http 503", retry_after_s=3_600)
    _, second = fake.first_round("1", "2")
    lanes.pause(fake.world, "test1", "A")
    before = lane(fake)
    fake.workflow.tasks.clear()

    assert lanes.skip_head(fake.world, "test1", "A", "poison").backlog == 1

    after = lane(fake)
    assert (after.state, after.wake_at) == (LaneState.PAUSED, before.wake_at)
    assert after.generation > before.generation
    assert fake.workflow.tasks == []
    resumed = lanes.resume(fake.world, "test1", "A").head
    assert resumed is not None
    assert (resumed.message_id, resumed.next_attempt_at) == (second, NOW)


def test_where_nothing_is_owed_nothing_can_be_skipped(fake: FakeWorld) -> None:
    with pytest.raises(ConflictError, match="has nothing to skip"):
        lanes.skip_head(fake.world, "test1", "A", "poison")
    lanes.pause(fake.world, "test1", "A")
    with pytest.raises(ConflictError, match="has nothing to skip"):
        lanes.skip_head(fake.world, "test1", "A", "poison")


def test_a_stale_due_row_is_skipped_without_an_end_of_its_own(fake: FakeWorld) -> None:
    [message_id] = block(fake, "1")
    message = next(key for key in fake.store.rows if key.pk.startswith("MSG#"))
    del fake.store.rows[message]

    assert lanes.skip_head(fake.world, "test1", "A", "poison").backlog == 0
    with pytest.raises(NotFoundError):
        messages.message_view(fake.world, "test1", message_id)


@pytest.mark.parametrize("command", [lanes.pause, lanes.retry_now])
def test_a_removed_lane_obeys_nobody(fake: FakeWorld, command: Callable[[World, str, str], object]) -> None:
    block(fake, "1")
    made = subscriptions.get_subscription(fake.world, "test1", "A")
    subscription_row = {key: row for key, row in fake.store.rows.items() if key.sk == "SUB#A"}
    subscriptions.delete_subscription(fake.world, "test1", "A")
    fake.store.rows |= subscription_row  # As a reader sees it who read the subscription before it went.

    with pytest.raises(NotFoundError):
        command(fake.world, "test1", "A")
    row = fake.store.rows[lane_key("test1", made.subscription_id)]
    assert row["state"] == "removed"


def test_a_batch_and_a_retry_of_a_topic_with_very_many_blocked_lanes_read_few_at_a_time(fake: FakeWorld) -> None:
    fake.subscribe("B")
    fake.subscribe("A", retry=RetryPolicy(Strategy.BACKOFF_RETRY, 3))
    [first] = block(fake, "1")
    for number in range(2 * ROWS_AT_ONCE):
        other = f"00000000000000000000.{number + 10}"  # Before the lane of A.
        fake.store.write(LANES.put(replace(lane(fake), subscription_id=other), "test1", other))
    fake.store.most_rows_at_once = fake.store.rows_read = 0

    [second] = fake.first_round("2")

    assert fake.store.rows_read < 1.1 * ROWS_AT_ONCE
    assert fake.pusher.received == {"B": ["1", "2"]}
    assert [each.message_id for each in lanes.backlog(fake.world, "test1", "A", 10, None).items] == [first, second]
    assert lanes.retry_topic(fake.world, "test1") == ("A",)
    assert fake.store.most_rows_at_once == ROWS_AT_ONCE
