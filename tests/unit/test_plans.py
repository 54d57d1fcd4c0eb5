"""When deliveries are attempted again: by their plan or when the receiver asks for it, by one worker at a time."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from tagcast.delivery.lease import Task
from tagcast.instant import parse, rfc3339
from tagcast.model import EntryState, LaneState, Outcome, Push, RetryPolicy, Strategy
from tagcast.operating import lanes
from tagcast.pushing.retry_delay import Disposition, after_failure

from functions.retry.app import handle
from tests.fakes.world import FAIL, OK, FakeWorld
from tests.unit.worlds import lane, lane_if_any, slow

DECAY = RetryPolicy(Strategy.EXPONENTIAL_DECAY_RETRY, 176)
NOW = 1_800_000_000_000
BUSY = Outcome(False, "http 503", retry_after_s=90.0)


def blocked(fake: FakeWorld, *bodies: str) -> Task:
    """Let A fail once, so that its lane is blocked; return the task of its execution."""
    fake.fail("A")
    fake.first_round(*bodies)
    [task] = fake.workflow.tasks
    return task


def failed(failures: int, **how: Any) -> Disposition:
    """What becomes of a delivery that failed just now, so many times."""
    usual: dict[str, Any] = {"expires_at": NOW + 9**9, "retry_after_s": None, "time_scale": 1.0}
    return after_failure(DECAY, failures, ended_at=NOW, jitter_s=15.0, **usual | how)


@pytest.mark.parametrize("early_ms", [0, 900])
@pytest.mark.parametrize(
    ("strategy", "attempts_s", "waits_s"),
    [
        (Strategy.BACKOFF_RETRY, [0, 15, 30, 45], [15, 30, 45]),
        # The function itself waits for what is due soon.
        (Strategy.EXPONENTIAL_DECAY_RETRY, [0, 1, 3, 7, 15, 31, 63], [31, 63]),
    ],
)
def test_a_workflow_that_wakes_early_attempts_nothing_before_the_instant(
    fake: FakeWorld, strategy: Strategy, attempts_s: list[int], waits_s: list[int], early_ms: int
) -> None:
    attempted_at, waits = list[int](), list[str]()

    def answer(push: Push) -> Outcome:
        attempted_at.append(fake.clock.instant)
        return OK if len(attempted_at) >= len(attempts_s) else FAIL

    fake.subscribe("A", strategy=strategy)
    fake.pusher.behaviours["A"] = answer
    fake.first_round("1")
    [task] = fake.workflow.tasks
    memory = asyncio.run(handle(asdict(task), fake.world, 60.0))
    while memory["status"] == "wait":
        waits.append(memory["wait_until"])
        fake.clock.instant = max(fake.clock.instant, parse(waits[-1]) - early_ms)
        memory = asyncio.run(handle(json.loads(json.dumps(memory)), fake.world, 60.0))

    assert attempted_at == [NOW + 1_000 * seconds for seconds in attempts_s]
    assert waits == [rfc3339(NOW + 1_000 * seconds) for seconds in waits_s]
    assert (memory["status"], memory["rounds"]) == ("end", len(waits_s))
    assert (fake.pusher.received["A"], lane_if_any(fake)) == (["1"], None)


def test_the_wait_begins_at_the_end_of_the_attempt(fake: FakeWorld) -> None:
    fake.subscribe("A")
    slow(fake, 10, FAIL)
    fake.publish("1")

    fake.deliver()

    [due] = lanes.backlog(fake.world, "test1", "A", 10, None).items
    assert due.last_attempt_at == NOW + 10_000
    assert lane(fake).next_attempt_at == NOW + 10_000 + 15_000


@pytest.mark.parametrize(
    ("failures", "asked_s", "wait_s"),
    [(1, None, 1), (5, None, 16), (5, 1.0, 16), (5, 16.5, 16.5), (1, 30.0, 30), (20, None, 512)],
)
def test_retry_after_makes_a_wait_longer_and_never_shorter(failures: int, asked_s: float | None, wait_s: float) -> None:
    assert failed(failures, retry_after_s=asked_s).next_attempt_at == NOW + wait_s * 1000


def test_the_time_scale_divides_our_waits_and_not_what_a_receiver_asks_for() -> None:
    planned = [failed(5, retry_after_s=asked_s, time_scale=8.0).next_attempt_at for asked_s in (None, 3.0)]
    assert planned == [NOW + 2_000, NOW + 3_000]


def test_a_retry_that_would_not_come_before_the_expiry_expires_at_once() -> None:
    assert failed(1, expires_at=NOW + 1_000).state is EntryState.EXPIRED
    assert failed(1, expires_at=NOW + 1_001).state is EntryState.BLOCKED


@pytest.mark.parametrize(("asked_s", "wait_s"), [(59.999, 59.999), (60.0, 16), (86_400.0, 16)])
def test_a_retry_after_beyond_the_expiry_is_ignored(asked_s: float, wait_s: float) -> None:
    assert failed(5, expires_at=NOW + 60_000, retry_after_s=asked_s).next_attempt_at == NOW + wait_s * 1000


def test_a_pause_that_ends_early_keeps_the_planned_wait(fake: FakeWorld) -> None:
    fake.subscribe("A")
    blocked(fake, "1")
    planned_at = lane(fake).next_attempt_at
    fake.clock.sleep(5)

    lanes.pause(fake.world, "test1", "A")
    assert lane(fake).state is LaneState.PAUSED
    lanes.resume(fake.world, "test1", "A")

    assert (lane(fake).state, lane(fake).next_attempt_at, lane(fake).wake_at) == (
        LaneState.BLOCKED,
        planned_at,
        planned_at,
    )
    assert planned_at == NOW + 15_000


def test_a_suspension_has_a_generation_of_its_own_and_a_resume_attempts_its_head_again(fake: FakeWorld) -> None:
    fake.subscribe("A")
    task = blocked(fake, "1")
    fake.pusher.behaviours["A"] = lambda push: Outcome(False, "http 410", gone=True)
    fake.clock.sleep(15)

    assert fake.redeliver(task).wait_until is None

    assert lane(fake).state is LaneState.SUSPENDED
    assert lane(fake).generation > task.generation
    assert lane(fake).wake_at == NOW + 15_000
    fake.pusher.behaviours.clear()
    fake.workflow.tasks.clear()
    lanes.resume(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + 1_000)
    assert (fake.pusher.received["A"], len(fake.pusher.pushes)) == (["1"], 3)


@pytest.mark.parametrize("took_s", [14, 15])
def test_a_long_drain_holds_its_claim_through_every_push(fake: FakeWorld, took_s: int) -> None:
    fake.subscribe("A")
    task = blocked(fake, *map(str, range(8)))
    slow(fake, took_s)
    timeout_ms = 15_000
    left: list[int] = []

    def look(push: Push) -> None:
        left.append((lane(fake).next_attempt_at or 0) - fake.clock.instant - timeout_ms)

    fake.pusher.before_push = look
    fake.clock.sleep(15)
    while (answer := fake.redeliver(task)).wait_until is not None:
        fake.clock.instant = max(fake.clock.instant, answer.wait_until)
        task = answer.task

    assert len(left) == 8
    assert min(left) > 0, "a push could outlive the claim that it was made under"


class Receiver:
    """Remembers when it was asked for each body; *answers* are its first answers, after them all is well."""

    def __init__(self, fake: FakeWorld, answers: dict[str, Outcome]) -> None:
        self.asked_at: dict[str, list[int]] = defaultdict(list)
        self.meanwhile: Callable[[], object] = lambda: None
        self._fake, self._answers = fake, answers
        fake.pusher.behaviours["A"] = self

    def __call__(self, push: Push) -> Outcome:
        body = push.message.draft.body.decode()
        self.asked_at[body].append(self._fake.clock.instant)
        if len(self.asked_at[body]) > 1:
            return OK
        self.meanwhile()
        return self._answers.get(body, OK)


def wait_of(receiver: Receiver, body: str) -> float:
    first, second = receiver.asked_at[body]
    return (second - first) / 1000


def test_behind_a_head_that_got_through_it_is_waited_for(fake: FakeWorld) -> None:
    fake.subscribe("A", strategy=DECAY.strategy)
    receiver = Receiver(fake, {"1": FAIL, "2": BUSY})
    fake.first_round("0", "1", "2")

    fake.run_workflows(until=fake.clock.instant + 200_000)

    assert wait_of(receiver, "1") == 1
    assert 90 <= wait_of(receiver, "2") < 95


@pytest.mark.parametrize("strategy", [Strategy.EXPONENTIAL_DECAY_RETRY, Strategy.BACKOFF_RETRY])
def test_what_joins_a_lane_that_is_there_already_is_waited_for(fake: FakeWorld, strategy: Strategy) -> None:
    fake.subscribe("A", strategy=strategy)
    receiver = Receiver(fake, {"1": BUSY})
    receiver.meanwhile = lambda: lanes.pause(fake.world, "test1", "A")
    fake.first_round("1")

    lanes.resume(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + 200_000)

    assert 90 <= wait_of(receiver, "1") < 95


def test_who_asks_for_a_retry_now_waits_for_nothing(fake: FakeWorld) -> None:
    fake.subscribe("A", strategy=DECAY.strategy)
    receiver = Receiver(fake, {"1": BUSY})
    fake.first_round("1")

    fake.clock.instant += 1
    lanes.retry_now(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + 200_000)

    assert wait_of(receiver, "1") < 1
