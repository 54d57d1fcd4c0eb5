"""INDEPENDENT_RETRY: each delivery has its own schedule, and none waits for another while the receiver answers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest
from tagcast.delivery import redelivery
from tagcast.errors import ConflictError
from tagcast.model import Batching, EntryState, LaneState, Outcome, Push, PushBatch, RetryPolicy, Strategy
from tagcast.operating import explaining, lanes, messages
from tagcast.operating.lanes import DueDelivery
from tagcast.registry.subscriptions import get_subscription
from tagcast.rows import lane_transitions, stored
from tagcast.rows.due import due_put
from tagcast.rows.keys import lane_key
from tagcast.tables import Update, Write
from tagcast_aws.endpoints import http

from tests.fakes.calls import Before
from tests.fakes.raced_store import elsewhere
from tests.fakes.world import OK, FakeWorld

INDEPENDENT = Strategy.INDEPENDENT_RETRY
REFUSED = http.outcome(422, None, 0)
UNAVAILABLE = http.outcome(503, None, 0)
NO_ANSWER = Outcome(False, "timeout after 15 s", unreached=True)


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    fake.world = replace(fake.world, short_wait_s=0.01)
    fake.subscribe("A", strategy=INDEPENDENT)
    return fake


def poison(bad: str, outcome: Outcome = REFUSED) -> Callable[[Push], Outcome]:
    """Return a receiver that never takes the bodies in *bad*."""
    return lambda push: outcome if push.message.draft.body.decode() in bad.split() else OK


def lane(fake: FakeWorld) -> lanes.LaneView:
    return lanes.lane_view(fake.world, get_subscription(fake.world, "test1", "A"))


def pending(fake: FakeWorld) -> list[DueDelivery]:
    return list(lanes.backlog(fake.world, "test1", "A", 100, None).items)


def attempts(fake: FakeWorld, body: str) -> list[int]:
    """Return when the attempts of a body were numbered, in their order."""
    return [push.attempt for push in fake.pusher.pushes if push.message.draft.body == body.encode()]


def later(fake: FakeWorld, seconds: float) -> None:
    """Let executions work for so long; those that wait then go on the next time."""
    until = fake.clock.instant + round(seconds * 1000)
    waiting = [(fake.clock.instant, task) for task in fake.workflow.tasks]
    fake.workflow.tasks = []
    while waiting:
        waiting.sort(key=lambda pair: pair[0])
        if waiting[0][0] > until:
            break
        due_at, task = waiting.pop(0)
        fake.clock.instant = max(fake.clock.instant, due_at)
        answer = fake.redeliver(task)
        waiting += [(fake.clock.instant, each) for each in fake.workflow.tasks]
        waiting += [(answer.wait_until, answer.task)] if answer.wait_until is not None else []
        fake.workflow.tasks = []
    fake.workflow.tasks = [task for _, task in waiting]
    fake.clock.instant = until


@pytest.mark.parametrize("outcome", [REFUSED, NO_ANSWER])
def test_a_failure_beside_which_others_get_through_holds_up_nothing_else(fake: FakeWorld, outcome: Outcome) -> None:
    fake.pusher.behaviours["A"] = poison("bad", outcome)
    fake.first_round("1", "bad", "2", "3")
    fake.first_round("4", "5")

    assert fake.pusher.received["A"] == ["1", "2", "3", "4", "5"]
    assert (lane(fake).state, lane(fake).backlog) == (LaneState.RETRYING, 1)


@pytest.mark.parametrize(("outcome", "state"), [(REFUSED, LaneState.RETRYING), (UNAVAILABLE, LaneState.LOST_CONTACT)])
def test_a_retrying_lane_loses_contact_by_a_failure_that_is_not_of_one_message(
    fake: FakeWorld, outcome: Outcome, state: LaneState
) -> None:
    fake.pusher.behaviours["A"] = poison("bad", outcome)
    fake.first_round("1", "bad")
    assert lane(fake).state is LaneState.RETRYING

    later(fake, 1)

    assert lane(fake).state is state


def lose_contact(fake: FakeWorld) -> None:
    """Let two messages be refused for 20 minutes, and once get 503: they are due in 512 s, and nothing else waits."""
    fake.pusher.behaviours["A"] = poison("bad worse")
    fake.first_round("bad", "worse")
    later(fake, 1_200)
    fake.pusher.behaviours["A"] = lambda push: UNAVAILABLE
    later(fake, 500)
    assert lane(fake).state is LaneState.LOST_CONTACT


def test_contact_stays_lost_until_the_receiver_answers_although_no_delivery_is_due(fake: FakeWorld) -> None:
    lose_contact(fake)
    states = list[LaneState]()
    for _ in range(20):
        later(fake, 60)
        states.append(lane(fake).state)
    assert set(states) == {LaneState.LOST_CONTACT}
    assert [(each.next_attempt_at or 0) - (each.last_attempt_at or 0) for each in pending(fake)] == [512_000, 512_000]

    made = len(fake.pusher.pushes)
    fake.first_round("new")
    assert attempts(fake, "new") == [1], "nothing else was due, so it is the next probe"
    fake.first_round("late")
    assert attempts(fake, "late") == [], "one delivery at a time is tried"
    later(fake, 60)
    assert 4 <= len(fake.pusher.pushes) - made <= 7
    assert lane(fake).state is LaneState.LOST_CONTACT


@pytest.mark.parametrize("also_bad", [False, True])
def test_a_new_message_that_gets_through_ends_the_loss_of_contact(fake: FakeWorld, also_bad: bool) -> None:
    lose_contact(fake)
    fake.pusher.behaviours["A"] = poison("bad", UNAVAILABLE)
    made = len(fake.pusher.pushes)

    fake.first_round("new", *(["bad"] if also_bad else []), "newer")

    assert fake.pusher.received["A"] == ["new", "newer"]
    assert len(fake.pusher.pushes) == made + 2 + also_bad
    assert lane(fake).state is LaneState.RETRYING


def test_a_refusal_of_one_message_ends_the_loss_of_contact(fake: FakeWorld) -> None:
    lose_contact(fake)
    fake.pusher.behaviours["A"] = poison("bad worse")
    later(fake, 600)

    assert lane(fake).state is LaneState.RETRYING


def test_each_delivery_keeps_to_its_own_schedule(fake: FakeWorld) -> None:
    began = fake.clock.instant
    instants = list[tuple[str, int]]()
    fake.pusher.before_push = lambda push: instants.append(
        (push.message.draft.body.decode(), round((fake.clock.instant - began) / 1000))
    )
    fake.pusher.behaviours["A"] = poison("x y")
    fake.first_round("x")
    later(fake, 5)
    fake.first_round("y")
    later(fake, 12)

    assert [at for body, at in instants if body == "x"] == [0, 1, 3, 7, 15]
    assert [at for body, at in instants if body == "y"] == [5, 6, 8, 12]


def test_a_healthy_message_beside_a_poisoned_one_costs_what_it_costs_alone(fake: FakeWorld) -> None:
    def cost() -> tuple[int, int, int]:
        written, read, begun = fake.store.writes, fake.store.rows_read, len(fake.workflow.tasks)
        fake.first_round("fine")
        return fake.store.writes - written, fake.store.rows_read - read, len(fake.workflow.tasks) - begun

    fake.first_round("first")
    alone = cost()
    fake.pusher.behaviours["A"] = poison("bad")
    fake.first_round("bad")

    lane_row = 1
    writes, read, begun = cost()
    assert (writes, read - lane_row, begun) == alone


@pytest.mark.parametrize("outcome", [NO_ANSWER, UNAVAILABLE])
def test_without_an_answer_for_the_message_one_delivery_at_a_time_is_tried(fake: FakeWorld, outcome: Outcome) -> None:
    fake.pusher.behaviours["A"] = lambda push: outcome
    fake.first_round(*(str(number) for number in range(30)))
    assert len(fake.pusher.pushes) == 1
    assert lane(fake).state is LaneState.LOST_CONTACT

    later(fake, 600)

    made = [push.message.draft.body.decode() for push in fake.pusher.pushes]
    assert 9 <= len(made) <= 13, "attempts come at growing waits, whatever waits"
    assert len(set(made)) >= len(made) - 2, "another one each time"

    fake.pusher.behaviours["A"] = lambda push: OK
    later(fake, 700)

    assert len(fake.pusher.received["A"]) == 30
    assert lane(fake).state is LaneState.ACTIVE


def test_what_joins_behind_a_workers_last_look_is_not_overlooked(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.pusher.behaviours["A"] = poison("old new")
    fake.first_round("old")
    later(fake, 600)
    joined = list[str]()

    def let_it_join(writes: Sequence[Write]) -> None:
        plans = [write for write in writes if isinstance(write, Update) and write.changes.get("state") == "retrying"]
        if plans and not joined:
            joined.extend(fake.publish("new"))
            fake.deliver()

    Before(monkeypatch).each(fake.store, "transact", let_it_join)
    monkeypatch.setattr(fake, "deliver", partial(elsewhere, fake.deliver))
    later(fake, 500)
    assert joined
    later(fake, 2)

    assert attempts(fake, "new")[:2] == [1, 2]


def test_a_retry_now_is_of_everything_that_waits(fake: FakeWorld) -> None:
    bad = " ".join(f"b{number}" for number in range(20))
    fake.pusher.behaviours["A"] = poison(bad)
    fake.first_round(*bad.split())
    later(fake, 600)
    fake.pusher.behaviours["A"] = lambda push: OK

    lanes.retry_now(fake.world, "test1", "A")
    later(fake, 0.1)

    assert sorted(fake.pusher.received["A"]) == sorted(bad.split())
    assert lane(fake).state is LaneState.ACTIVE


@pytest.mark.parametrize("changes", [{}, {"batching": Batching(10, 200_000)}, {"max_per_second": 100.0}])
def test_a_retry_now_reaches_what_waits_far_behind_and_only_once(
    fake: FakeWorld, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redelivery, "RETRY_NOW_PAGE", 10)
    fake.subscribe("A", strategy=INDEPENDENT, answers=REFUSED, **changes)
    fake.pusher.batch_behaviours["A"] = lambda batch: REFUSED
    for body in ("old1", "old2"):
        fake.first_round(body)
    later(fake, 700)
    for number in range(15):
        fake.first_round(f"new{number}")
    old = [attempts(fake, body) for body in ("old1", "old2")]

    lanes.retry_now(fake.world, "test1", "A")
    later(fake, 60)
    assert [attempts(fake, body) for body in ("old1", "old2")] == [[*each, len(each) + 1] for each in old]

    key = lane_key("test1", get_subscription(fake.world, "test1", "A").subscription_id)
    assert "retry_all_at" not in fake.store.rows[key]


def test_any_message_of_the_backlog_is_skipped_by_its_id(fake: FakeWorld) -> None:
    fake.pusher.behaviours["A"] = poison("x y z")
    _, y, _ = fake.first_round("x", "y", "z")

    with pytest.raises(ConflictError, match="3 deliveries of subscription A wait"):
        lanes.skip_head(fake.world, "test1", "A", "poison")
    lanes.skip_head(fake.world, "test1", "A", "poison", y)

    entry = messages.message_view(fake.world, "test1", y).subscribers["A"]
    assert (entry.state, entry.last_outcome) == (EntryState.CANCELLED, "skipped: poison")
    assert len(pending(fake)) == 2


def test_people_see_when_each_delivery_is_attempted_next(fake: FakeWorld) -> None:
    fake.pusher.behaviours["A"] = poison("x y")
    fake.first_round("x")
    later(fake, 3.5)
    fake.first_round("y")

    waits = [((due.next_attempt_at or 0) - fake.clock.instant) / 1000 for due in pending(fake)]

    assert [due.attempts for due in pending(fake)] == [1, 3]
    assert waits[0] == 1
    assert 3 < waits[1] < 4


def test_the_attempts_of_a_message_far_behind_in_the_backlog_are_shown(fake: FakeWorld) -> None:
    fake.pusher.behaviours["A"] = lambda push: REFUSED
    fake.first_round(*map(str, range(messages.FRONT_ROWS + 1)))
    last = stored.dues(fake.store, get_subscription(fake.world, "test1", "A").subscription_id)[-1].message_id

    [shown] = messages.message_view(fake.world, "test1", last).subscribers.values()
    [(_, listed)] = messages.list_attempts(fake.world, "test1", last, 10, None).items
    explained = cast("dict[str, Any]", explaining.explain(fake.world, "test1", last, "A"))["delivery"]

    assert (shown.attempts, listed.attempts, explained["attempts"]) == (1, 1, 1)


def test_a_subscription_that_no_longer_keeps_an_order_lets_its_backlog_go(fake: FakeWorld) -> None:
    fake.subscribe("A", strategy=Strategy.EXPONENTIAL_DECAY_RETRY, answers=poison("bad"))
    fake.first_round("bad", "1", "2")
    assert lane(fake).backlog == 3

    fake.subscribe("A", strategy=INDEPENDENT)
    later(fake, 1.1)

    assert sorted(fake.pusher.received["A"]) == ["1", "2"]


def test_what_waited_alone_comes_first_once_there_is_an_order(fake: FakeWorld) -> None:
    fake.pusher.behaviours["A"] = poison("old older")
    fake.first_round("older", "old")
    fake.subscribe("A", retry=RetryPolicy(Strategy.BACKOFF_RETRY, 100, 1))
    fake.first_round("1", "2")
    fake.pusher.behaviours["A"] = lambda push: OK

    later(fake, 5)

    assert fake.pusher.received["A"] == ["older", "old", "1", "2"]


def batched(fake: FakeWorld, answer: Callable[[PushBatch], Outcome]) -> None:
    fake.subscribe("A", strategy=INDEPENDENT, batching=Batching(10, 65_536))
    fake.pusher.batch_behaviours["A"] = answer


def test_of_a_batch_only_what_its_answer_names_is_retried(fake: FakeWorld) -> None:
    def answer(batch: PushBatch) -> Outcome:
        ids = [push.message.message_id for push in batch.pushes if push.message.draft.body == b"bad"]
        return Outcome(True, "http 200", failed=dict.fromkeys(ids, "named as failed"))

    batched(fake, answer)
    fake.first_round("1", "bad", "2")
    assert fake.pusher.received["A"] == ["1", "2"]
    assert lane(fake).state is LaneState.RETRYING

    fake.first_round("3")
    later(fake, 1.1)

    assert fake.pusher.received["A"] == ["1", "2", "3"]
    assert attempts(fake, "bad") == [1, 2]


def test_a_message_that_fails_every_batch_is_found_and_the_others_get_through(fake: FakeWorld) -> None:
    batched(fake, lambda batch: REFUSED if any(push.message.draft.body == b"bad" for push in batch.pushes) else OK)
    fake.first_round("1", "2", "3", "bad", "4", "5", "6", "7")

    later(fake, 30)

    assert sorted(fake.pusher.received["A"]) == ["1", "2", "3", "4", "5", "6", "7"]
    assert lane(fake).backlog == 1


def test_what_is_above_a_rate_waits_for_it_beside_what_failed(fake: FakeWorld) -> None:
    fake.subscribe("A", strategy=INDEPENDENT, answers=poison("bad"), max_per_second=2.0)
    fake.first_round("bad", *(str(number) for number in range(12)))
    assert lane(fake).state is LaneState.BLOCKED

    later(fake, 20)

    assert sorted(map(int, fake.pusher.received["A"])) == list(range(12))
    assert lane(fake).state is LaneState.RETRYING


def test_a_delivery_that_waits_longer_after_a_change_of_its_schedule_holds_up_nothing_else(fake: FakeWorld) -> None:
    schedule = RetryPolicy(INDEPENDENT, 176, interval_s_max=1)
    fake.subscribe("A", retry=schedule, answers=poison("old new"), max_per_second=10.0)
    fake.first_round("old")
    later(fake, 8)
    assert len(attempts(fake, "old")) >= 8
    fake.subscribe("A", retry=replace(schedule, interval_s_max=512), max_per_second=10.0)
    fake.first_round("new")
    before = len(attempts(fake, "old"))

    later(fake, 20)

    assert attempts(fake, "new") == [1, 2, 3, 4, 5]
    assert len(attempts(fake, "old")) == before


def test_only_what_speaks_of_one_message_is_a_refusal() -> None:
    refused = {status for status in range(100, 600) if http.outcome(status, None, 0).refused}

    assert refused >= {400, 401, 404, 422, 500}
    assert refused.isdisjoint({*range(100, 400), 408, 429, 502, 503, 504})


@pytest.mark.parametrize("how", ["paused", "suspended"])
def test_after_a_resume_no_message_waits_for_a_refused_one(fake: FakeWorld, how: str) -> None:
    fake.pusher.behaviours["A"] = poison("bad")
    fake.first_round("bad")
    later(fake, 70)  # The next attempt of the refused one is more than a minute away.
    tried = attempts(fake, "bad")
    if how == "paused":
        lanes.pause(fake.world, "test1", "A")
    else:
        fake.pusher.behaviours["A"] = lambda push: http.outcome(410, None, 0)
        fake.first_round("gone")
        later(fake, 1)
        fake.pusher.behaviours["A"] = poison("bad")
    assert lane(fake).state == how
    fake.first_round("1")

    resumed = lanes.resume(fake.world, "test1", "A")
    fake.first_round("2")
    later(fake, 5)

    assert resumed.state == "retrying"
    assert {"1", "2"} <= {*fake.pusher.received["A"]}
    assert (attempts(fake, "bad"), lane(fake).state) == (tried, "retrying")


@pytest.mark.parametrize("began", ["ordered", "days ago"])
def test_who_keeps_order_again_gets_what_waited_before_later_messages(fake: FakeWorld, began: str) -> None:
    ordered = RetryPolicy(Strategy.BACKOFF_RETRY, 100, 1)
    fake.pusher.behaviours["A"] = lambda push: REFUSED
    if began == "ordered":
        fake.subscribe("A", retry=ordered)
    fake.first_round("old")
    fake.subscribe("A", strategy=INDEPENDENT)
    for _ in range(0 if began == "ordered" else 3):
        later(fake, 80_000)  # The lane stays: a day has 86,400 s.
        fake.first_round("old")
    later(fake, 60)

    fake.subscribe("A", retry=ordered)
    fake.first_round("new")

    *before, last = [due.attempts > 0 for due in pending(fake)]
    assert (all(before), len(before) > 0, last) == (True, True, False)


@pytest.mark.parametrize("strategy", [Strategy.BACKOFF_RETRY, Strategy.EXPONENTIAL_DECAY_RETRY])
def test_under_another_strategy_a_lane_stays_for_a_push_that_is_in_flight(fake: FakeWorld, strategy: Strategy) -> None:
    fake.subscribe("A", strategy=strategy, answers=poison("1"))
    fake.first_round("1", "2")
    *_, behind = stored.dues(fake.store, get_subscription(fake.world, "test1", "A").subscription_id)
    in_flight_until = fake.clock.instant + 60_000
    fake.store.write(due_put(replace(behind, not_before=in_flight_until)))  # As a push left by its batch has it.
    fake.pusher.behaviours["A"] = lambda push: OK

    later(fake, 30)
    meanwhile = [due.message_id for due in pending(fake)]
    later(fake, 40)

    assert meanwhile == [behind.message_id]
    assert (fake.pusher.received["A"], pending(fake)) == (["1", "2"], [])


def test_after_a_resume_nobody_repeats_the_attempt_that_was_running_at_the_pause(fake: FakeWorld) -> None:
    fake.pusher.behaviours["A"] = lambda push: REFUSED
    fake.first_round("1")
    sid = get_subscription(fake.world, "test1", "A").subscription_id
    known = stored.lane(fake.store, "test1", sid)
    assert known is not None
    until = fake.clock.instant + 45_000
    fake.store.write(lane_transitions.claim(known, until)[1])  # A worker attempts the first one.

    lanes.pause(fake.world, "test1", "A")
    lanes.resume(fake.world, "test1", "A")
    fake.first_round("2")

    resumed = stored.lane(fake.store, "test1", sid)
    assert resumed is not None
    assert (resumed.next_attempt_at, resumed.is_claimed) == (until, True)
    assert attempts(fake, "2") == [1]
