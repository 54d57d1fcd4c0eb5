"""A batch goes on without what is not answered in time: its lane keeps it, and what comes of it is written late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tagcast.delivery.lease import Task
from tagcast.delivery.redelivery import redeliver
from tagcast.model import Batching, EntryState, LaneState, Message, Outcome, PastAttempt, Strategy, Subscription
from tagcast.operating import lanes
from tagcast.ports import World
from tagcast.pushing.engine import ANSWERED_WITHIN_S
from tagcast.pushing.push_slots import PushSlots
from tagcast.registry.subscriptions import delete_subscription, get_subscription, put_subscription
from tagcast.rows import stored
from tagcast.rows.due import DUES, PendingDelivery, due_put, position
from tagcast.rows.lane import LANES, Lane, starts_workflow
from tagcast.rows.lane_transitions import join, lane_put
from tagcast.rows.message import MESSAGES
from tagcast.tables import Row
from tagcast_aws.endpoints import http

from functions.fan_out.app import handle
from tests.fakes.queue_records import in_one_order
from tests.fakes.virtual_time import TimedWorld
from tests.fakes.world import FAIL, OK
from tests.unit.test_beside_in_a_batch import WatchedQueue
from tests.unit.worlds import lane, lane_if_any

SOON_S = ANSWERED_WITHIN_S + 0.2


@pytest.fixture
def timed() -> TimedWorld:
    return TimedWorld()


def lane_of(timed: TimedWorld, name: str) -> Lane:
    return lane(timed.fake, name)


def planned_in_s(timed: TimedWorld) -> float:
    """Return how long the lane of slow waits for its next attempt."""
    planned_at = lane_of(timed, "slow").next_attempt_at
    assert planned_at is not None
    return (planned_at - timed.clock.now()) / 1000


def test_what_stands_behind_it_in_an_order_comes_before_a_push_that_hangs_ends(timed: TimedWorld) -> None:
    timed.subscribe("healthy")
    timed.subscribe(*(f"hangs{place}" for place in range(20)), answers=(60.0, OK))
    queue, ids, began_s = WatchedQueue(timed), timed.fake.publish("1"), timed.loop.seconds

    timed.run(handle(in_one_order(ids), replace(timed.world, queue=queue)))

    assert len(queue.deleted) == 1
    assert max(queue.at_s.values()) - began_s <= SOON_S
    assert timed.loop.seconds - began_s >= 15, "the pushes were not awaited"


@pytest.mark.parametrize("strategy", list(Strategy))
def test_an_answer_that_comes_late_ends_its_delivery_by_one_attempt(timed: TimedWorld, strategy: Strategy) -> None:
    timed.subscribe("slow", answers=(ANSWERED_WITHIN_S + 0.5, OK), strategy=strategy)

    came = timed.first_round("1", "2")

    assert [push.body for push in timed.receivers.started] == ["1"], "nothing more is begun by a batch that went on"
    first, second = (came.row(place).map.entry(0) for place in (0, 1))
    assert (first.state, first.attempts) == (EntryState.DELIVERED, 1)
    assert (second.state, second.attempts) == (EntryState.PENDING, 0)
    assert [due.message_id for due in came.backlog_of("slow")] == [came.ids[1]]
    assert planned_in_s(timed) <= 0
    assert len(timed.starts) == 1, "the lane is handed on to an execution"


@pytest.mark.parametrize(
    ("strategy", "state", "wait_s"),
    [
        (Strategy.BACKOFF_RETRY, LaneState.BLOCKED, (10.0, 20.0)),
        (Strategy.EXPONENTIAL_DECAY_RETRY, LaneState.LOST_CONTACT, (1.0, 1.0)),
    ],
)
def test_a_failure_that_comes_late_counts_and_is_retried_by_its_schedule(
    timed: TimedWorld, strategy: Strategy, state: LaneState, wait_s: tuple[float, float]
) -> None:
    timed.subscribe("slow", answers=(5.0, FAIL), strategy=strategy)

    came = timed.first_round("1", "2")

    assert [(due.message_id, due.attempts) for due in came.backlog_of("slow")] == [(came.ids[0], 1), (came.ids[1], 0)]
    slow = lane_of(timed, "slow")
    assert (slow.state, slow.planned_for) == (state, came.ids[0])
    assert wait_s[0] - 0.1 <= planned_in_s(timed) <= wait_s[1]
    assert len(timed.starts) == 1, "the lane is handed on to an execution"


@pytest.mark.parametrize(
    ("outcome", "state", "wait_s"),
    [
        (http.outcome(422, None, 0), LaneState.BLOCKED, 0.0),
        (http.outcome(503, None, 0), LaneState.LOST_CONTACT, 1.0),
        (http.outcome(503, "30", 0), LaneState.LOST_CONTACT, 30.0),
        (http.outcome(410, None, 0), LaneState.SUSPENDED, 0.0),
    ],
)
def test_a_late_failure_of_an_independent_delivery_gives_it_its_own_next_attempt(
    timed: TimedWorld, outcome: Outcome, state: LaneState, wait_s: float
) -> None:
    timed.subscribe("slow", answers=(5.0, outcome), strategy=Strategy.INDEPENDENT_RETRY)

    came = timed.first_round("1", "2")

    attempts = {due.message_id: due.attempts for due in came.backlog_of("slow")}
    assert attempts == {came.ids[0]: 1, came.ids[1]: 0}
    assert lane_of(timed, "slow").state is state
    assert wait_s - 0.1 <= planned_in_s(timed) <= wait_s
    assert len(timed.starts) == (0 if state.is_asleep else 1)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (OK, LaneState.ACTIVE),
        (http.outcome(422, None, 0), LaneState.RETRYING),
        (http.outcome(503, None, 0), LaneState.LOST_CONTACT),
        (http.outcome(410, None, 0), LaneState.SUSPENDED),
    ],
)
def test_contact_stays_lost_while_a_new_message_is_in_flight(
    timed: TimedWorld, outcome: Outcome, state: LaneState
) -> None:
    timed.subscribe("slow", answers=(5.0, outcome), strategy=Strategy.INDEPENDENT_RETRY)
    [sid] = [each.subscription_id for each in stored.every_subscription(timed.fake.store, "test1")]
    in_512_s = timed.clock.now() + 512_000
    lost = Lane("test1", sid, LaneState.LOST_CONTACT, "1", 1, 1, in_512_s, in_512_s)
    timed.fake.store.write(lane_put(lost))
    seen = list[Lane]()
    timed.loop.call_later(3.0, lambda: seen.append(lane_of(timed, "slow")))

    timed.first_round("1")

    assert [(each.state, each.pushes_new) for each in seen] == [(LaneState.LOST_CONTACT, False)]
    slow = lane_if_any(timed.fake, "slow")
    assert (LaneState.ACTIVE if slow is None else slow.state) is state
    if state is LaneState.RETRYING:
        assert planned_in_s(timed) <= 1.0


def test_an_independent_delivery_is_kept_from_others_until_its_push_ends(timed: TimedWorld) -> None:
    timed.subscribe("slow", answers=(14.0, OK), strategy=Strategy.INDEPENDENT_RETRY)
    seen = list[PendingDelivery]()
    timed.loop.call_later(2.0, lambda: seen.extend(dues_of(timed, "slow")))

    timed.first_round("1")

    [due] = seen
    assert due.not_before is not None
    assert (due.not_before - timed.clock.now()) / 1000 > 15
    assert dues_of(timed, "slow") == []


def test_the_other_messages_of_a_request_that_fails_late_are_due_at_once(timed: TimedWorld) -> None:
    fails_late, batching = (5.0, http.outcome(500, None, 0)), Batching(10, 200_000)
    timed.subscribe("slow", answers=fails_late, strategy=Strategy.INDEPENDENT_RETRY, batching=batching)

    came = timed.first_round("1", "2", "3")

    now, waiting = timed.clock.now(), {due.message_id: due for due in came.backlog_of("slow")}
    assert [waiting[each].attempts for each in came.ids] == [1, 0, 0]
    assert all(int(waiting[each].position) <= now and not waiting[each].not_before for each in came.ids[1:])
    assert planned_in_s(timed) <= 0


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_filter_function_that_answers_late_is_invoked_once(timed: TimedWorld, strategy: Strategy) -> None:
    function = {"kind": "function", "function": "decide", "on_error": "block", "timeout_seconds": 5}
    timed.subscribe("A", strategy=strategy, filter=function)
    asked, seen = list[int](), list[PendingDelivery]()

    async def verdicts(subscription: Subscription, messages: Sequence[Message]) -> tuple[bool, ...]:
        asked.append(len(messages))
        await asyncio.sleep(3.0)
        return (True,) * len(messages)

    timed.fake.filter_functions.verdicts = verdicts  # type: ignore[method-assign]
    timed.loop.call_later(2.0, lambda: seen.extend(dues_of(timed, "A")))
    came = timed.first_round("1", "2")

    assert len(seen) == 2
    is_held = [due.not_before is not None and due.not_before > timed.clock.now() for due in seen]
    assert all(is_held) or strategy is not Strategy.INDEPENDENT_RETRY, "no worker begins while the call runs"
    assert [due.unjudged for due in came.backlog_of("A")] == [False, False]

    async def work() -> None:
        async with PushSlots(timed.clock) as slots:
            await redeliver(timed.world, task_of(timed, "A"), 60.0, slots)

    timed.run(work())
    assert asked == [2]
    assert [push.body for push in timed.receivers.started] == ["1", "2"]


def task_of(timed: TimedWorld, name: str) -> Task:
    known = lane_of(timed, name)
    return Task("test1", known.subscription_id, known.generation)


def dues_of(timed: TimedWorld, name: str) -> list[PendingDelivery]:
    return stored.dues(timed.store, get_subscription(timed.world, "test1", name).subscription_id)


def test_what_a_batch_gives_up_makes_a_letter_before_and_after_it_goes_on(timed: TimedWorld) -> None:
    timed.fake.topic("dead")
    timed.fake.subscribe("watch", topic="dead")
    timed.subscribe("slow", answers=(0.5, FAIL), max_retries=0)
    settings = get_subscription(timed.world, "test1", "slow").settings
    put_subscription(timed.world, "test1", "slow", replace(settings, dead_letter_topic="dead"))
    timed.loop.call_later(0.3, lambda: timed.receivers.replies.update(slow=(5.0, FAIL)))

    came = timed.first_round("1", "2")

    assert [came.row(place).map.entry(0).state for place in (0, 1)] == [EntryState.DISCARDED] * 2
    assert timed.receivers.pushes_of("slow")[1].at_s - came.began_s < 1, "the batch left the second push under way"
    found = [MESSAGES.value_of(row).message for row in timed.store.rows.values() if "dead_letter_of" in str(row)]
    letters = {letter.properties["dead_letter_of"]: letter for letter in found if letter.topic == "dead"}
    assert list(letters) == came.ids


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_lane_whose_only_push_is_answered_late_needs_no_execution(timed: TimedWorld, strategy: Strategy) -> None:
    timed.subscribe("slow", answers=(14.0, OK), strategy=strategy)
    seen = list[Lane]()
    timed.loop.call_later(2.0, lambda: seen.append(lane_of(timed, "slow")))

    came = timed.first_round("1")

    [claimed] = seen
    assert claimed.is_claimed
    assert claimed.next_attempt_at is not None
    assert (claimed.next_attempt_at - timed.clock.now()) / 1000 > 15, "the claim ends before the push"
    assert not starts_workflow({}, LANES.row_of(claimed)), "the relay starts an execution"
    assert came.row(0).map.entry(0).state is EntryState.DELIVERED
    assert lane_if_any(timed.fake, "slow") is None
    assert timed.starts == []


@pytest.mark.parametrize("strategy", list(Strategy))
def test_what_joined_behind_a_late_push_is_handed_on_to_an_execution(timed: TimedWorld, strategy: Strategy) -> None:
    timed.subscribe("slow", answers=(5.0, OK), strategy=strategy)

    async def two_batches() -> None:
        async with asyncio.TaskGroup() as group:
            for text in "12":
                group.create_task(handle(in_one_order(timed.fake.publish(text)), timed.world))
                await timed.clock.pause(2.0)

    timed.run(two_batches())

    assert [push.body for push in timed.receivers.started] == ["1"]
    assert len(dues_of(timed, "slow")) == 1
    assert len(timed.starts) == 1
    assert not lane_of(timed, "slow").is_claimed


@pytest.mark.parametrize("strategy", list(Strategy))
def test_what_joins_while_a_late_answer_finds_no_backlog_keeps_its_lane(timed: TimedWorld, strategy: Strategy) -> None:
    timed.subscribe("slow", answers=(5.0, OK), strategy=strategy)
    seen = list[PendingDelivery]()
    timed.loop.call_later(2.0, lambda: seen.extend(dues_of(timed, "slow")))

    def join_after(pk: str, rows: list[Row]) -> None:
        if seen and not rows and pk.startswith("DUE#"):
            later = replace(seen.pop(), message_id="7", position=position(9, 0), not_before=None)
            timed.store.transact((due_put(later), join(lane_of(timed, "slow"), ["7"], later.expires_at)))

    timed.store.after_query = join_after
    timed.first_round("1")

    assert not seen
    assert [due.message_id for due in dues_of(timed, "slow")] == ["7"]
    assert lane_if_any(timed.fake, "slow") is not None
    assert len(timed.starts) == 1


def test_a_topic_whose_batches_never_cease_does_not_keep_a_lane_waiting_after_a_late_answer(
    timed: TimedWorld,
) -> None:
    timed.subscribe("slow", answers=(5.0, OK), strategy=Strategy.INDEPENDENT_RETRY)
    answered_at = timed.loop.seconds + 5.0

    def join_after(pk: str, rows: list[Row]) -> None:
        if rows and pk.startswith("DUE#") and timed.loop.seconds >= answered_at:
            timed.store.write(join(lane_of(timed, "slow"), ["7"], timed.clock.now()))

    timed.store.after_query = join_after
    timed.first_round("1", "2")

    assert not lane_of(timed, "slow").is_claimed
    assert planned_in_s(timed) <= 0
    assert len(timed.starts) == 1


def test_a_late_failure_that_another_writer_overtook_hands_the_lane_on(timed: TimedWorld) -> None:
    timed.subscribe("slow", answers=(5.0, FAIL), strategy=Strategy.INDEPENDENT_RETRY)

    def attempt() -> None:
        [key] = [key for key in timed.store.rows if key.pk.startswith("DUE#")]
        timed.store.rows[key]["attempts"] = 1

    timed.loop.call_later(2.0, attempt)
    timed.first_round("1")

    assert not lane_of(timed, "slow").is_claimed
    assert len(timed.starts) == 1


def test_what_failed_in_another_batch_meanwhile_keeps_to_its_own_schedule(timed: TimedWorld) -> None:
    timed.subscribe("slow", answers=(5.0, OK))
    failed = PastAttempt(1, timed.clock.now(), 20, "http 500", 500)

    def join() -> None:
        [key] = [key for key in timed.store.rows if key.pk.startswith("DUE#")]
        due = DUES.value_of(timed.store.rows[key])
        another = replace(due, message_id=f"{int(due.message_id) + 1:020d}", position=position(2, 0))
        write = due_put(another.after_failure(failed, None))
        timed.store.rows[write.key] = {**write.row, "pk": write.key.pk, "sk": write.key.sk}

    timed.loop.call_later(2.0, join)
    came = timed.first_round("1")

    planned_for = lane_of(timed, "slow").planned_for
    assert planned_for == came.ids[0], "a head that is planned for itself, or for anybody, is attempted at once"


def test_who_took_the_lane_meanwhile_decides_alone(timed: TimedWorld) -> None:
    timed.subscribe("slow", answers=(5.0, OK))
    before = list[Lane]()

    def take() -> None:
        before.append(lane_of(timed, "slow"))
        timed.store.rows[before[0].key]["generation"] = "another"

    timed.loop.call_later(2.0, take)
    came = timed.first_round("1")

    after = lane_of(timed, "slow")
    assert (after.generation, after.next_attempt_at) == ("another", before[0].next_attempt_at)
    assert came.row(0).map.entry(0).state is EntryState.PENDING
    assert timed.starts == []


def test_a_quick_receiver_is_never_left_however_long_its_batch_takes_to_start(timed: TimedWorld) -> None:
    timed.receivers.work_s = 0.01
    timed.subscribe(*(f"quick{place}" for place in range(300)), answers=(0.1, OK))

    came = timed.first_round("1")

    assert came.took_s > ANSWERED_WITHIN_S
    assert came.row(0).map.pending_count == 0
    assert not any(name.startswith("LANES#") for name in (key.pk for key in timed.store.rows))


@pytest.mark.parametrize("act", [lanes.pause, delete_subscription])
@pytest.mark.parametrize("strategy", [Strategy.INDEPENDENT_RETRY, Strategy.EXPONENTIAL_DECAY_RETRY])
def test_behind_a_push_that_hangs_nothing_begins_once_the_lane_was_paused_or_removed(
    timed: TimedWorld, strategy: Strategy, act: Callable[[World, str, str], object]
) -> None:
    timed.subscribe("slow", answers=(5.0, OK), strategy=strategy)
    lanes.pause(timed.world, "test1", "slow")
    timed.first_round(*map(str, range(20)))
    lanes.resume(timed.world, "test1", "slow")
    task = task_of(timed, "slow")

    async def work() -> None:
        async with asyncio.TaskGroup() as group, PushSlots(timed.clock) as slots:
            group.create_task(redeliver(timed.world, task, 60.0, slots))
            await timed.clock.pause(2.0)
            act(timed.world, "test1", "slow")

    timed.run(work())

    assert len(timed.receivers.started) == 1
