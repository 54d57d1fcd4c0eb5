"""Hanging and failing receivers beside healthy ones, in virtual time: nobody's trouble is anybody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

import pytest
from tagcast.delivery.fan_out import TIME_S_MAX
from tagcast.errors import ConditionLostError
from tagcast.filters.function_filter import TIMEOUT_MAX_S
from tagcast.ids import subscription_id
from tagcast.model import Message, Outcome, Strategy, Subscription
from tagcast.operating import lanes
from tagcast.ports import Put, Table, Update, Write
from tagcast.pushing.engine import LastPush, LastPushes, order_pushes
from tagcast.pushing.push_slots import Priority
from tagcast.queues import Audience
from tagcast.registry.subscriptions import get_subscription
from tagcast.rows.keys import lane_key
from tagcast.rows.lane import LANES

from functions.retry import app as retry
from tests.fakes.virtual_time import TimedWorld
from tests.fakes.world import FAIL, OK, FakeWorld
from tests.template import declared

RESOURCES = declared()
RETRY_TIMEOUT_S = RESOURCES["RetryFunction"]["Properties"]["Timeout"]
BACKOFF, DECAY = Strategy.BACKOFF_RETRY, Strategy.EXPONENTIAL_DECAY_RETRY
BATCH = tuple("0123456789")
HANGING = (1e9, OK)
WORK_S = 0.0005


class SlowFilterFunctions:
    """A filter function that says yes after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def verdicts(self, subscription: Subscription, messages: Sequence[Message]) -> tuple[bool, ...] | None:
        await asyncio.sleep(self.seconds)
        return (True,) * len(messages)


def names(kind: str, count: int) -> list[str]:
    return [f"{kind}{number}" for number in range(count)]


def healthy_alone_s(strategy: Strategy, bodies: tuple[str, ...]) -> float:
    world = TimedWorld()
    world.subscribe("healthy", strategy=strategy, answers=(0.05, OK))
    return world.first_round(*bodies).done_at_s("healthy")


HANGING_BY_DAY = ((99, 5, DECAY, BATCH), (700, 30, BACKOFF, BATCH[:1]))


@pytest.fixture
def world() -> TimedWorld:
    return TimedWorld()


@pytest.mark.parametrize(
    ("hanging", "timeout_s", "strategy", "bodies"),
    [
        pytest.param(*scene, *each, marks=() if (*scene, *each) in HANGING_BY_DAY else pytest.mark.nightly)
        for scene in ((99, 5), (230, 30), (700, 1), (700, 30))
        for each in product((BACKOFF, DECAY), (BATCH[:1], BATCH))
    ],
)
def test_beside_700_hanging_hosts_a_healthy_receiver_is_done_as_soon_as_alone(
    world: TimedWorld, hanging: int, timeout_s: int, strategy: Strategy, bodies: tuple[str, ...]
) -> None:
    world.subscribe(*names("hanging", hanging), timeout_s=timeout_s, strategy=strategy, answers=HANGING)
    world.subscribe("healthy", strategy=strategy, answers=(0.05, OK))

    round_ = world.first_round(*bodies)

    assert round_.done_at_s("healthy") <= 1.3 * healthy_alone_s(strategy, bodies)
    assert round_.backlog_of("healthy") == []
    assert round_.took_s <= timeout_s + 5


def done_after_s(hanging: int, healthy: int, strategy: Strategy, bodies: tuple[str, ...], *, known: bool) -> float:
    """Return when *healthy* receivers are done whose pushes cost the processor half a millisecond each."""
    world = TimedWorld()
    world.receivers.work_s = WORK_S
    world.subscribe(*names("hanging", hanging), timeout_s=5, strategy=strategy, answers=HANGING)
    world.subscribe(*names("healthy", healthy), strategy=strategy, answers=(0.05, OK))
    for name in names("healthy", healthy):
        subscription = get_subscription(world.world, "test1", name)
        if known:
            world.world.memory.of(LastPushes)[subscription.subscription_id] = LastPush(Priority.TRUSTED, 0.0)
    round_ = world.first_round(*bodies)
    return max(map(round_.done_at_s, names("healthy", healthy)))


BY_DAY = ((1, BACKOFF, BATCH[:1]), (100, DECAY, BATCH[:1]))


@pytest.mark.parametrize(
    ("healthy", "strategy", "bodies"),
    [
        pytest.param(*each, marks=() if each in BY_DAY else pytest.mark.nightly)
        for each in product((1, 100), (BACKOFF, DECAY), (BATCH[:1], BATCH[:5]))
    ],
)
def test_the_work_of_starting_700_others_delays_no_receiver_that_answered_the_last_time(
    healthy: int, strategy: Strategy, bodies: tuple[str, ...]
) -> None:
    alone = done_after_s(0, healthy, strategy, bodies, known=True)

    assert done_after_s(700, healthy, strategy, bodies, known=True) <= 1.3 * alone
    assert done_after_s(700, healthy, strategy, bodies, known=False) <= 1.3 * alone + 700 * WORK_S


def test_beside_more_hanging_hosts_a_healthy_receiver_is_handed_to_its_lane_before_they_end(world: TimedWorld) -> None:
    world.subscribe(*names("hanging", 999), timeout_s=30, strategy=DECAY, answers=HANGING)
    world.subscribe("healthy", strategy=DECAY, answers=(0.05, OK))

    round_ = world.first_round(*BATCH)

    assert world.receivers.pushes_of("healthy") == []
    assert [due.attempts for due in round_.backlog_of("healthy")] == [0] * 10
    [started_at] = [at for subscription_id, at in world.starts if subscription_id.endswith(".999")]
    assert started_at - round_.began_s <= TIME_S_MAX + 1
    assert round_.took_s <= 35
    assert world.receivers.most[""] == 800


def test_a_receiver_gets_one_attempt_until_it_answers_well_and_then_its_window_opens(world: TimedWorld) -> None:
    world.subscribe("hanging", timeout_s=5, strategy=DECAY, answers=HANGING)
    world.subscribe("failing", strategy=DECAY, answers=(0.1, FAIL))
    world.subscribe("healthy", strategy=DECAY, answers=(0.1, OK))

    round_ = world.first_round(*BATCH)

    assert len(world.receivers.pushes_of("hanging")) == 1
    assert len(world.receivers.pushes_of("failing")) == 1
    starts = [started.at_s - round_.began_s for started in world.receivers.pushes_of("healthy")]
    assert starts[1] == pytest.approx(starts[0] + 0.1)
    assert starts[1:] == [starts[1]] * 9


def test_a_dead_host_holds_an_eighth_of_the_slots_whoever_subscribes_there(world: TimedWorld) -> None:
    world.subscribe(*names("dead", 900), host="dead", timeout_s=30, answers=HANGING)
    world.subscribe("healthy", answers=(0.05, OK))

    round_ = world.first_round(*BATCH)

    assert world.receivers.most["http://dead.test/"] == 100
    assert round_.backlog_of("healthy") == []
    assert len(world.starts) == 900


def test_waiting_for_a_slot_is_counted_and_is_no_receivers_failure(world: TimedWorld) -> None:
    world.subscribe(*names("slow", 1000), timeout_s=1, answers=(0.9, OK))

    round_ = world.first_round("0")

    assert round_.row(0).map.pending_count == 0
    assert world.fake.telemetry.counts["SlotWaitMs"] == pytest.approx(200 * 900, rel=0.1)
    assert world.fake.telemetry.counts["PushesDeferred"] == 0


def test_a_receiver_that_had_to_wait_for_a_slot_has_its_whole_share(world: TimedWorld) -> None:
    world.subscribe(*names("hanging", 800), timeout_s=1, answers=HANGING)
    world.subscribe("healthy", answers=(0.18, OK))

    round_ = world.first_round(*BATCH)

    assert world.receivers.pushes_of("healthy")[0].at_s - round_.began_s >= 1
    assert round_.backlog_of("healthy") == []


def test_a_thousand_failing_subscriptions_take_two_seconds_at_5_ms_a_call() -> None:
    world = TimedWorld(call_s=0.005)
    world.subscribe(*names("failing", 1000), answers=(0.01, FAIL))

    round_ = world.first_round(*BATCH)

    assert len(world.starts) == 1000
    assert round_.took_s <= 2


@pytest.mark.parametrize("failing", [180, 400])
def test_healthy_receivers_beside_failing_ones_are_neither_charged_nor_sent_to_lanes(failing: int) -> None:
    world = TimedWorld(call_s=0.005)
    world.subscribe(*names("failing", failing), timeout_s=1, answers=(0.0, FAIL))
    world.subscribe(*names("healthy", 100), timeout_s=1, answers=(0.3, OK))

    round_ = world.first_round(*BATCH[:6])

    assert len(world.starts) == failing
    assert all(round_.backlog_of(name) == [] for name in names("healthy", 100))
    assert max(map(round_.done_at_s, names("healthy", 100))) <= 1.3 * 6 * 0.3


def test_filter_functions_that_hang_let_the_function_end_in_time(world: TimedWorld) -> None:
    world.world = world.fake.world = replace(world.world, filter_functions=SlowFilterFunctions(TIMEOUT_MAX_S - 0.1))
    by_function: dict[str, object] = {"kind": "function", "function": "f", "timeout_seconds": 10, "on_error": "block"}
    world.subscribe(*names("judged", 300), timeout_s=30, answers=HANGING, filter=by_function)
    world.subscribe("healthy", answers=(0.05, OK))

    round_ = world.first_round(*BATCH)

    assert round_.backlog_of("healthy") == []
    assert round_.took_s <= 10 + 30 + 5


def refuse_dues(writes: Sequence[Write]) -> None:
    if any(write.key.pk.startswith("DUE#") for write in writes):
        raise ConnectionError


def test_a_write_that_fails_ends_nothing_but_its_own_part_and_the_batch_comes_again(world: TimedWorld) -> None:
    world.subscribe("refused", answers=(0.01, FAIL))
    world.subscribe("slow", answers=(0.2, OK))

    world.store.before_transact = refuse_dues
    first = world.first_round("0", "1")

    assert len(first.failures) == 2
    assert [started.body for started in world.receivers.pushes_of("slow")] == ["0", "1"]
    assert [len(first.row(place).map.pending) for place in (0, 1)] == [1, 1]
    assert list(first.row(0).rounds.values()) == [None]


def test_a_message_whose_every_entry_is_settled_is_closed_although_the_batch_failed(world: TimedWorld) -> None:
    world.subscribe("refused", answers=(0.01, FAIL), filter={"kind": "tags", "tags": ["x"]})
    world.subscribe("other", answers=(0.01, OK))

    world.store.before_transact = refuse_dues
    ids = [*world.fake.publish("0", tags=("x",)), *world.fake.publish("1", tags=("y",))]
    round_ = world.round_of(ids)

    assert len(round_.failures) == 2
    assert [round_.row(place).rounds[Audience.EVERYBODY] is None for place in (0, 1)] == [True, False]


@pytest.mark.parametrize(("receiver", "kind", "row"), [(FAIL, Put, "LANES#"), (OK, Update, "MSG#")])
def test_a_condition_that_is_always_lost_ends_after_a_few_tries_with_pauses(
    world: TimedWorld, receiver: Outcome, kind: type[Write], row: str
) -> None:
    world.subscribe("unlucky", answers=(0.01, receiver))
    tries: list[float] = []

    def race(writes: Sequence[Write]) -> None:
        if any(isinstance(write, kind) and write.key.pk.startswith(row) for write in writes):
            tries.append(world.loop.seconds)
            raise ConditionLostError

    world.store.before_transact = race
    round_ = world.first_round("0")

    assert len(round_.failures) == 1
    assert 3 <= len(tries) <= 10
    gaps = [later - earlier for earlier, later in pairwise(tries)]
    assert min(gaps) >= 0.01
    assert gaps[-1] > 5 * gaps[0]


@pytest.mark.parametrize("push_s", [0.5, 7.0, 16.0, 22.0, 29.9, 31.0])
def test_whatever_a_receiver_takes_retry_ends_before_its_time_is_over(world: TimedWorld, push_s: float) -> None:
    world.world = world.fake.world = replace(world.world, filter_functions=SlowFilterFunctions(TIMEOUT_MAX_S - 0.1))
    by_function = {"kind": "function", "function": "f", "timeout_seconds": TIMEOUT_MAX_S, "on_error": "block"}
    world.subscribe("A", timeout_s=30, strategy=DECAY, answers=(push_s, OK), filter=by_function)
    lanes.pause(world.world, "test1", "A")
    for _ in range(25):
        world.first_round(*BATCH)
    lanes.resume(world.world, "test1", "A")
    lane = LANES.value_of(world.store.query(Table.MESSAGES, lane_key("test1", "").pk)[0])
    began_s = world.loop.seconds
    event = {"topic": "test1", "subscription_id": lane.subscription_id, "generation": lane.generation, "rounds": 0}

    world.run(retry.handle(event, world.world, RETRY_TIMEOUT_S - retry.RESERVE_S))

    assert len(world.receivers.started) > 0
    assert world.loop.seconds - began_s <= RETRY_TIMEOUT_S - 2


def test_slow_receivers_that_a_batch_waits_for_are_begun_with_once_they_are_known(world: TimedWorld) -> None:
    """Each push takes a moment to begin, and the fast receivers stand before the slow ones."""
    world.receivers.work_s = 0.005
    world.subscribe(*names("fast", 180), answers=(0.0, OK))
    world.subscribe(*names("slow", 20), answers=(0.7, OK))

    unknown, known = world.first_round("0"), world.first_round("1")

    assert unknown.took_s >= 1.6
    assert known.took_s <= 1.2
    assert 0.7 <= max(map(known.done_at_s, names("slow", 20))) <= 0.9


def test_however_many_receivers_are_slow_the_others_have_half_of_the_slots_in_their_order(world: TimedWorld) -> None:
    world.subscribe("fast", answers=(0.05, OK))
    world.subscribe(*names("slow", 850), timeout_s=5, answers=(4.0, OK))
    topic_id = get_subscription(world.world, "test1", "fast").topic_id
    lasts = {subscription_id(topic_id, each): LastPush(Priority.TRUSTED, 4.0 if each else 0.05) for each in range(851)}
    world.world.memory.of(LastPushes).update(lasts)

    round_ = world.first_round("0")

    assert round_.done_at_s("fast") <= 1.3 * healthy_alone_s(BACKOFF, ("0",))


def test_of_two_slow_receivers_the_one_that_failed_is_not_pushed_to_first() -> None:
    world = FakeWorld().world
    lasts = (LastPush(Priority.TRUSTED, 0.1), LastPush(Priority.FAILING, 9.0), LastPush(Priority.TRUSTED, 3.0))
    world.memory.of(LastPushes).update({subscription_id("7", each): last for each, last in enumerate(lasts)})
    assert order_pushes(world, "7", range(3)) == [2, 0, 1]
