"""A worker of a lane among others: it waits before it tries again, keeps what it planned and tells what it ends."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tagcast.delivery.lease import Task
from tagcast.delivery.redelivery import redeliver
from tagcast.errors import ConditionLostError, ContendedError
from tagcast.model import Outcome, Push, Strategy
from tagcast.ports import Delete, Memory, Table, Update, Write
from tagcast.pushing.circuit import CircuitCheck
from tagcast.pushing.engine import Run, send_in_order
from tagcast.pushing.push_slots import PushSlots
from tagcast.registry.subscriptions import get_subscription, put_subscription
from tagcast.rows import stored
from tagcast.rows.keys import lane_key

from tests.fakes.memory_store import MemoryStore
from tests.fakes.raced_store import elsewhere
from tests.fakes.virtual_time import TimedWorld
from tests.fakes.world import FAIL, OK, FakeWorld
from tests.unit.worlds import failing, lane

TRIES_MAX = 1_000
"""More than any worker makes in a minute that waits between them."""


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    fake.topic(retention_s=300)
    return fake


def blocked(fake: FakeWorld, *bodies: str, strategy: Strategy = Strategy.BACKOFF_RETRY) -> Task:
    """Give a lane these pending messages; the first failed once, its receiver is healthy again, and time is up."""
    failing(fake, "A", strategy=strategy)
    fake.first_round(*bodies)
    fake.pusher.behaviours["A"] = lambda push: OK
    [task] = fake.workflow.tasks
    fake.clock.sleep(15)
    return task


def pauses_of(fake: FakeWorld) -> list[float]:
    """Return the list that the pauses of workers will be in."""
    pauses: list[float] = []
    pause = fake.clock.pause

    async def told(seconds: float) -> None:
        pauses.append(seconds)
        await pause(seconds)

    fake.clock.pause = told  # type: ignore[method-assign]
    return pauses


def contend(named: str, times: int) -> Callable[[Sequence[Write]], None]:
    """Keep writers of rows whose keys hold *named* out so many times."""
    left = times

    def before(writes: Sequence[Write]) -> None:
        nonlocal left
        if left and any(named in write.key.pk + write.key.sk for write in writes):
            left -= 1
            raise ContendedError

    return before


def test_a_worker_that_loses_every_claim_waits_longer_each_time_and_ends_with_its_budget(
    fake: FakeWorld, store: MemoryStore
) -> None:
    task = blocked(fake, "1")

    def lose(writes: Sequence[Write]) -> None:
        if any(isinstance(write, Update) and "claim" in write.changes for write in writes):
            raise ConditionLostError

    store.before_transact = lose
    began, pauses = fake.clock.instant, pauses_of(fake)
    answer = fake.redeliver(task)

    assert answer.wait_until == fake.clock.instant
    assert 59_000 <= fake.clock.instant - began <= 61_000
    assert pauses[:4] == pytest.approx([0.01, 0.04, 0.16, 0.5])
    assert not fake.pusher.received["A"]


def test_waits_are_short_again_after_something_went_well(fake: FakeWorld, store: MemoryStore) -> None:
    task = blocked(fake, "1")
    fake.publish("2")
    tries = 0

    def grow(writes: Sequence[Write]) -> None:
        nonlocal tries
        if any(isinstance(write, Delete) and write.key.pk.startswith("LANES#") for write in writes):
            tries += 1
            if tries == 3:
                elsewhere(fake.deliver)
            elif tries <= 5:
                store.rows[lane_key("test1", task.subscription_id)]["appended"] += 1

    store.before_transact = grow
    pauses = pauses_of(fake)
    fake.redeliver(task)

    assert fake.pusher.received["A"] == ["1", "2"]
    assert pauses == pytest.approx([0.01, 0.04, 0.16, 0.01, 0.04])


def test_an_end_that_can_be_kept_nowhere_within_the_budget_is_counted_as_lost(
    fake: FakeWorld, store: MemoryStore
) -> None:
    task = blocked(fake, "1")
    [message_id] = [row["message_id"] for key, row in store.rows.items() if key.sk == "MSG"]
    store.before_transact = contend(message_id, TRIES_MAX)
    began = fake.clock.instant

    answer = fake.redeliver(task)

    assert answer.wait_until is not None
    assert 55_000 <= fake.clock.instant - began <= 62_000
    assert fake.telemetry.counts["OutcomesLost"] == 1


def test_an_end_that_others_keep_out_is_tried_after_longer_and_longer_waits_and_pushed_once(
    fake: FakeWorld, store: MemoryStore
) -> None:
    task = blocked(fake, "1")
    store.before_transact = contend("END#", 6)
    pauses, pushes = pauses_of(fake), len(fake.pusher.pushes)

    fake.redeliver(task)

    assert pauses == pytest.approx([0.01, 0.04, 0.16, 0.5, 0.5, 0.5])
    assert len(fake.pusher.pushes) == pushes + 1
    assert [key.sk for key in store.rows if key.pk.startswith("MSG#") and key.sk != "MSG"] == ["END#0000000000"]


@pytest.mark.parametrize(("short_wait_s", "waits_in_it"), [(10.0, True), (0.0, False)])
def test_a_short_wait_keeps_a_worker_only_if_the_deployment_says_so(
    fake: FakeWorld, short_wait_s: float, waits_in_it: bool
) -> None:
    task = blocked(fake, "1", strategy=Strategy.EXPONENTIAL_DECAY_RETRY)
    fake.world = replace(fake.world, short_wait_s=short_wait_s)
    fake.fail("A")
    fake.redeliver(task)
    fake.pusher.behaviours["A"] = lambda push: OK
    due_at = lane(fake).next_attempt_at
    assert due_at is not None
    fake.clock.instant = due_at - 4_000

    answer = fake.redeliver(task)

    assert (fake.pusher.received["A"] == ["1"]) is waits_in_it
    assert answer.wait_until == (None if waits_in_it else due_at)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_lane_waits_if_the_rows_of_its_subscription_were_lost_and_goes_on_when_they_are_back(
    fake: FakeWorld, store: MemoryStore, strategy: Strategy
) -> None:
    task = blocked(fake, "1", "2", strategy=strategy)
    lost = {key: row for key, row in store.rows.items() if key.table is Table.REGISTRY}
    for key in lost:
        del store.rows[key]
    fake.world = replace(fake.world, memory=Memory())
    fake.run_for(150)
    absent = f"subscription {task.subscription_id} does not exist"
    assert [(what, str(fault)) for what, fault in fake.telemetry.faults] == [("a lane", absent)] * 3

    for key, row in lost.items():
        store.rows[key] = row
    fake.workflow.tasks = [task]
    fake.run_for(60)
    assert sorted(fake.pusher.received["A"]) == ["1", "2"]


def test_a_failure_during_a_look_at_the_lane_stops_the_run() -> None:
    timed = TimedWorld()
    timed.subscribe("A", strategy=Strategy.EXPONENTIAL_DECAY_RETRY)
    subscription, ids = get_subscription(timed.world, "test1", "A"), timed.fake.publish(*map(str, range(600)))
    rows = [stored.accepted(timed.store, "test1", message_id) for message_id in ids]
    began_s, begun, failed, looks = timed.loop.seconds, list[float](), list[float](), 0

    async def push(push: Push) -> Outcome:
        begun.append(timed.loop.seconds)
        await asyncio.sleep(0.2 + len(begun) % 50 / 500)
        if timed.loop.seconds < began_s + 1.1:
            return OK
        failed.append(timed.loop.seconds)
        return FAIL

    async def look() -> bool:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0.2)
        return True

    async def work() -> None:
        async with PushSlots(timed.clock) as slots:
            deliveries = [(row.message, 0) for row in rows if row is not None]
            circuit = CircuitCheck(timed.world, subscription, "A.test")
            run = Run(subscription, deliveries, slots, 30.0, circuit, answered=True, may_continue=look)
            await send_in_order(timed.world, run)

    timed.receivers.push = push  # type: ignore[method-assign]
    timed.run(work())

    assert max(begun) <= min(failed)
    assert looks == 1, "all that begin a second later share a look"


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_worker_with_a_backlog_takes_up_changed_settings_within_30_seconds(strategy: Strategy) -> None:
    timed = TimedWorld()
    timed.subscribe("A", strategy=strategy, answers=(0.0, FAIL))
    for part in range(3):
        timed.first_round(*(f"{part} {number}" for number in range(90)))
    known, outdated = get_subscription(timed.world, "test1", "A"), list[float]()

    async def push(push: Push) -> Outcome:
        if push.subscription.version == known.version:
            outdated.append(timed.loop.seconds)
        await asyncio.sleep(1.0 if strategy is Strategy.BACKOFF_RETRY else 12.0)
        return OK

    async def work() -> float:
        async with PushSlots(timed.clock) as slots:
            failed = lane(timed.fake)
            assert failed.next_attempt_at is not None
            await asyncio.sleep((failed.next_attempt_at - timed.clock.now()) / 1000)
            changed_s = timed.loop.seconds + 2
            settings = replace(known.settings, timeout_s=20)
            timed.loop.call_at(changed_s, lambda: put_subscription(timed.world, "test1", "A", settings))
            await redeliver(timed.world, Task("test1", known.subscription_id, failed.generation), 75.0, slots)
        return changed_s

    timed.receivers.push = push  # type: ignore[method-assign]
    changed_s = timed.run(work())
    assert outdated[-1] <= changed_s + 30
    assert timed.loop.seconds >= changed_s + 35, "the worker went on for longer"
