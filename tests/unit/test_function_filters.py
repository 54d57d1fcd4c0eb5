"""Filter functions: who is asked, when, and what becomes of a delivery whose function fails.

See docs/filters.md, Functions.
"""

import asyncio
import io
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import pytest
from botocore.exceptions import ClientError
from tagcast.delivery.publishing import publish
from tagcast.model import Draft, EntryState, LaneState, Message, Strategy, Subscription
from tagcast.operating import explaining, lanes, messages
from tagcast.pushing.batch_form import ANSWER_BYTES_MAX
from tagcast.queues import PACK_MAX
from tagcast.registry import subscriptions
from tagcast.subscription_settings import DECAY_WINDOW
from tagcast_aws.api.limits import BATCHED_MAX
from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.filter_function import EVENT_BYTES_MAX, LambdaFilterFunctions
from tagcast_aws.runtime.system import SystemClock

from tests.fakes.world import FAIL, OK, FakeClock, FakeWorld, Judgement
from tests.unit.worlds import blocked, entry, lane, lane_if_any

DECAY = Strategy.EXPONENTIAL_DECAY_RETRY


def by_function(on_error: str = "drop") -> dict[str, object]:
    return {"kind": "function", "function": "decide", "on_error": on_error, "timeout_seconds": 3}


def judged(fake: FakeWorld, judgement: Judgement, on_error: str = "drop", **settings: Any) -> None:
    """Subscribe A with a filter function that judges in this way."""
    fake.subscribe("A", filter=by_function(on_error), **settings)
    fake.filter_functions.behaviours["A"] = judgement


def due_rows(fake: FakeWorld) -> list[dict[str, object]]:
    return [dict(row) for key, row in sorted(fake.store.rows.items(), key=str) if key.pk.startswith("DUE#")]


def yes_unless(*refused: str) -> Judgement:
    return lambda asked: tuple(message.draft.body.decode() not in refused for message in asked)


def error(asked: object) -> None:
    return None


def test_a_no_is_filtered_and_never_pushed(fake: FakeWorld) -> None:
    judged(fake, yes_unless("1"))
    [message_id] = fake.publish("1")

    fake.deliver()

    assert (entry(fake, message_id).state, entry(fake, message_id).attempts) == (EntryState.FILTERED, 0)
    assert fake.pusher.pushes == []
    assert lane_if_any(fake) is None
    assert messages.message_view(fake.world, "test1", message_id).state == "deleted"
    reason = "before the first push, its filter function or the filter that replaced it did not match"
    assert explaining.explain(fake.world, "test1", message_id, "A")["reason"] == reason


def test_a_batch_is_asked_once_and_what_remains_keeps_its_order(fake: FakeWorld) -> None:
    judged(fake, yes_unless("2", "4"))
    ids = fake.publish("1", "2", "3", "4", "5")

    fake.deliver()

    assert fake.filter_functions.asked == [("A", ["1", "2", "3", "4", "5"])]
    assert fake.pusher.received["A"] == ["1", "3", "5"]
    yes, no = EntryState.DELIVERED, EntryState.FILTERED
    assert [entry(fake, each).state for each in ids] == [yes, no, yes, no, yes]
    assert fake.telemetry.counts["filter_failed"] == 0


def test_a_call_is_about_a_hundred_messages_at_most_and_each_is_asked_about_once(fake: FakeWorld) -> None:
    judged(fake, yes_unless())
    bodies = [str(number) for number in range(150)]
    fake.fan_out("test1", fake.publish(*bodies))
    fake.run_for(60)

    assert max(len(asked) for _, asked in fake.filter_functions.asked) == PACK_MAX <= 100
    assert max(DECAY_WINDOW, BATCHED_MAX) <= 100, "a worker asks about what it would push together"
    assert sorted(body for _, asked in fake.filter_functions.asked for body in asked) == sorted(bodies)
    assert sorted(fake.pusher.received["A"]) == sorted(bodies)


def test_an_error_under_drop_drops_the_whole_batch_and_counts_each(fake: FakeWorld) -> None:
    judged(fake, error)
    ids = fake.publish("1", "2", "3")

    fake.deliver()

    found = [entry(fake, each) for each in ids]
    assert [(each.state, each.attempts) for each in found] == [(EntryState.DISCARDED, 0)] * 3
    assert fake.telemetry.counts[EntryState.DISCARDED] == 3


def test_a_yes_to_what_was_not_started_any_more_is_kept(fake: FakeWorld) -> None:
    fake.subscribe("A", filter=by_function(), strategy=DECAY, answers=FAIL)
    bodies = [str(number) for number in range(40)]
    fake.first_round(*bodies)
    [task] = fake.workflow.tasks
    fake.pusher.behaviours["A"] = lambda push: OK if push.message.draft.body == b"0" else FAIL
    fake.clock.sleep(1)

    task = fake.redeliver(task).task
    started = {push.message.draft.body for push in fake.pusher.pushes}
    assert len(started) < len(bodies), "a failure stops what was not started"
    fake.pusher.behaviours["A"] = lambda push: OK
    fake.clock.sleep(600)
    fake.redeliver(task)

    assert sorted(fake.pusher.received["A"], key=int) == bodies
    asked = [body for _, each in fake.filter_functions.asked for body in each]
    assert sorted(asked, key=int) == bodies, "somebody was asked twice"


def test_each_error_under_block_is_an_attempt_of_its_own(fake: FakeWorld) -> None:
    judged(fake, error, "block", max_retries=3)
    [message_id] = fake.publish("1")

    fake.deliver()

    made = [entry(fake, message_id).attempts]
    [task] = fake.workflow.tasks
    for _ in range(3):
        fake.clock.sleep(15)
        task = fake.redeliver(task).task
        made.append(entry(fake, message_id).attempts)
    assert made == [1, 2, 3, 4]
    assert entry(fake, message_id).state is EntryState.DISCARDED


def test_a_judged_delivery_is_not_asked_about_again(fake: FakeWorld) -> None:
    blocked(fake, "1", "2", filter=by_function())
    assert lane(fake).state is LaneState.BLOCKED
    assert [row.get("unjudged") for row in due_rows(fake)] == [None, None]

    fake.filter_functions.behaviours["A"] = error
    fake.pusher.behaviours["A"] = lambda push: OK
    fake.run_for(60)

    assert fake.filter_functions.asked == [("A", ["1", "2"])]
    assert fake.pusher.received["A"] == ["1", "2"]


@pytest.mark.parametrize("is_in_backlog", [True, False])
@pytest.mark.parametrize(
    ("present", "received"),
    [
        ({"kind": "tags", "tags": ["pear"]}, ["2"]),
        ({"kind": "sql92", "expression": "price > 5"}, []),
        (None, ["1", "2"]),
    ],
)
def test_a_filter_that_replaces_a_function_decides_about_what_the_function_did_not(
    fake: FakeWorld, present: dict[str, object] | None, received: list[str], is_in_backlog: bool
) -> None:
    fake.subscribe("A", filter=by_function("block"), max_retries=9)
    fake.filter_functions.behaviours["A"] = error
    ids = fake.publish("1", tags=["apple"]) + fake.publish("2", tags=["pear"])
    if is_in_backlog:
        fake.deliver()

    fake.subscribe("A", filter=present, max_retries=9)
    fake.deliver()
    fake.run_for(60)

    assert fake.pusher.received["A"] == received
    ends = [EntryState.DELIVERED if body in received else EntryState.FILTERED for body in "12"]
    assert [entry(fake, each).state for each in ids] == ends


def test_a_filter_that_replaces_the_successor_of_a_function_changes_nothing_for_what_the_successor_matched(
    fake: FakeWorld,
) -> None:
    fake.subscribe("A", filter=by_function())
    fake.subscribe("A", filter={"kind": "tags", "tags": ["pear"]})
    fake.clock.sleep(60)
    fake.publish("1", tags=["pear"])

    fake.subscribe("A", filter={"kind": "tags", "tags": ["apple"]})
    fake.deliver()

    assert fake.pusher.received["A"] == ["1"]


def test_a_filter_that_replaces_a_function_and_fails_does_not_match_and_is_counted(fake: FakeWorld) -> None:
    judged(fake, error, "block", max_retries=9)
    [accepted] = publish(fake.world, "test1", [Draft(b"1", properties={"price": "cheap"})])
    fake.deliver()
    fake.telemetry.counts.clear()

    fake.subscribe("A", filter={"kind": "sql92", "expression": "price > 5", "dialect": "rocketmq"}, max_retries=9)
    fake.run_for(60)

    assert fake.pusher.pushes == []
    assert entry(fake, accepted.message_id).state is EntryState.FILTERED
    assert fake.telemetry.counts["filter_failed"] == 1


def test_a_backlog_is_asked_about_window_by_window_and_only_once(fake: FakeWorld) -> None:
    fake.subscribe("A", strategy=DECAY, filter=by_function())
    lanes.pause(fake.world, "test1", "A")
    bodies = [str(number) for number in range(12)]
    fake.first_round(*bodies)
    fake.pusher.behaviours["A"] = lambda push: FAIL if push.message.draft.body == b"1" and push.attempt == 1 else OK

    lanes.resume(fake.world, "test1", "A")
    fake.run_for(60)

    assert sorted(body for _, asked in fake.filter_functions.asked for body in asked) == sorted(bodies)
    assert sorted(fake.pusher.received["A"]) == sorted(bodies)
    assert lane_if_any(fake) is None


def test_a_yes_to_a_window_is_kept_when_all_of_it_fails(fake: FakeWorld) -> None:
    fake.subscribe("A", strategy=DECAY, filter=by_function())
    lanes.pause(fake.world, "test1", "A")
    fake.first_round("0", "1", "2", "3")
    fake.pusher.behaviours["A"] = lambda push: OK if push.message.draft.body == b"0" else FAIL

    lanes.resume(fake.world, "test1", "A")
    fake.run_for(0.5)

    assert lane(fake).state is LaneState.LOST_CONTACT
    assert [row.get("unjudged") for row in due_rows(fake)] == [None] * 3
    assert [row["attempts"] for row in due_rows(fake)][1:] == [1, 1]
    assert fake.filter_functions.asked == [("A", ["0"]), ("A", ["1", "2", "3"])]


def test_under_decay_an_error_of_the_batch_is_a_failed_attempt_of_its_head_alone(fake: FakeWorld) -> None:
    fake.subscribe("A", strategy=DECAY, filter=by_function("block"))
    fake.filter_functions.behaviours["A"] = lambda asked: (
        None if len(asked) > 1 and asked[0].draft.body == b"1" else (True,) * len(asked)
    )
    fake.first_round("1", "2", "3")
    assert lane(fake).state is LaneState.LOST_CONTACT
    assert [row["attempts"] for row in due_rows(fake)] == [1, 0, 0]

    fake.run_for(60)

    assert fake.filter_functions.asked[1:] == [("A", ["1"]), ("A", ["2", "3"])]
    assert fake.pusher.received["A"] == ["1", "2", "3"]


def test_what_was_judged_before_an_error_is_delivered_first(fake: FakeWorld) -> None:
    fake.subscribe("A", strategy=DECAY, filter=by_function("block"))
    lanes.pause(fake.world, "test1", "A")
    fake.first_round("1", "2", "3")
    [judged] = [key for key, row in fake.store.rows.items() if row in due_rows(fake)[:1]]
    fake.store.rows[judged] = {name: value for name, value in fake.store.rows[judged].items() if name != "unjudged"}
    fake.filter_functions.behaviours["A"] = error

    lanes.resume(fake.world, "test1", "A")
    fake.run_for(0.5)

    assert fake.filter_functions.asked[:2] == [("A", ["2", "3"]), ("A", ["2"])]
    assert fake.pusher.received["A"] == ["1"]
    assert [row.get("unjudged") for row in due_rows(fake)] == [1, 1]
    assert [row["attempts"] for row in due_rows(fake)] == [len(fake.filter_functions.asked), 0]


def test_an_expired_message_is_not_asked_about(fake: FakeWorld) -> None:
    fake.subscribe("A", filter=by_function())
    [message_id] = fake.publish("1")
    fake.clock.instant = messages.message_view(fake.world, "test1", message_id).message.expires_at

    fake.deliver()

    assert fake.filter_functions.asked == []
    assert entry(fake, message_id).state is EntryState.EXPIRED


class Blinking(FakeClock):
    """A clock that is a day ahead at one of its readings, and then right again."""

    readings = 1_000

    def now(self) -> int:
        self.readings -= 1
        return super().now() + (86_400_000 if self.readings == 0 else 0)


@pytest.mark.parametrize("readings", range(1, 12))
def test_a_clock_that_is_set_back_lets_through_nothing_that_was_never_judged(fake: FakeWorld, readings: int) -> None:
    judged(fake, yes_unless("1", "2"))
    ids = fake.publish("1", "2")
    clock = Blinking(fake.clock.instant)
    fake.world = replace(fake.world, clock=clock)
    clock.readings = readings

    fake.fan_out("test1", ids)

    assert fake.pusher.pushes == []


@pytest.mark.parametrize("strategy", list(Strategy))
def test_others_are_neither_asked_for_nor_held_up_nor_marked(fake: FakeWorld, strategy: Strategy) -> None:
    judged(fake, error, "block")
    fake.subscribe("B", strategy=strategy)
    fake.subscribe("C", "apple", strategy=strategy, answers=FAIL)
    ids = fake.publish("1", "2", tags=["apple"])

    fake.deliver()

    assert fake.pusher.received["B"] == ["1", "2"]
    assert [entry(fake, each, "B").state for each in ids] == [EntryState.DELIVERED] * 2
    assert {name for name, _ in fake.filter_functions.asked} == {"A"}
    of_c = subscriptions.get_subscription(fake.world, "test1", "C").subscription_id
    marks = [row.get("unjudged") for row in due_rows(fake) if row["pk"] == f"DUE#{of_c}"]
    assert marks == [None, None]


class FakeFunctions:
    """A Lambda client whose functions are a Python function of the event."""

    def __init__(self, answer: Callable[[Any], object], fault: str | None = None) -> None:
        self.answer, self.fault = answer, fault
        self.made: list[tuple[str, str | None, float]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def client(self, service: str, region_name: str | None, config: Any) -> Self:
        self.made.append((service, region_name, config.read_timeout))
        return self

    def invoke(self, FunctionName: str, InvocationType: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803
        event = json.loads(Payload)
        self.calls.append((FunctionName, event))
        answer = self.answer(event)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return {"Payload": io.BytesIO(body), **({"FunctionError": self.fault} if self.fault else {})}


def message(body: bytes = b"1", *, is_text: bool = True) -> Message:
    draft = Draft(body, is_text, ("apple",), "order.eu", {"price": "120"})
    return Message("test1", "07457000000000000001", draft, 0, 1)


def ask(fake: FakeWorld, functions: FakeFunctions, asked: list[Message], **settings: object) -> tuple[bool, ...] | None:
    subscription: Subscription = fake.subscribe("A", filter=by_function() | settings)
    port = LambdaFilterFunctions(AdapterEnvironment(SystemClock(), "1", make_client=functions.client))
    return asyncio.run(port.verdicts(subscription, asked))


def test_a_function_of_the_service_gives_no_verdict(fake: FakeWorld) -> None:
    functions = FakeFunctions(lambda event: {"verdicts": [True]})
    around = AdapterEnvironment(SystemClock(), "1", make_client=functions.client, own_functions="dec")

    subscription = fake.subscribe("A", filter=by_function())

    assert asyncio.run(LambdaFilterFunctions(around).verdicts(subscription, [message()])) is None
    assert functions.calls == []


@pytest.mark.parametrize(("more", "expected"), [(0, (True,)), (1, None)])
def test_no_more_of_an_answer_is_read_than_of_any_other(
    fake: FakeWorld, more: int, expected: tuple[bool, ...] | None
) -> None:
    """A function answers with six megabytes if it likes, and many of them answer one invocation."""
    answer = b'{"verdicts": [true]}'.rjust(ANSWER_BYTES_MAX + more)

    assert ask(fake, FakeFunctions(lambda event: answer), [message()]) == expected


def test_the_function_gets_the_messages_and_answers_verdicts(fake: FakeWorld) -> None:
    functions = FakeFunctions(lambda event: {"verdicts": ["body" in each for each in event["messages"]]})

    verdicts = ask(fake, functions, [message(), message(b"\xff", is_text=False)])

    assert verdicts == (True, False)
    [(name, event)] = functions.calls
    common = {
        "message_id": "07457000000000000001",
        "tags": ["apple"],
        "routing_key": "order.eu",
        "properties": {"price": "120"},
    }
    expected = [common | {"body": "1"}, common | {"body_base64": "/w=="}]
    assert name == "decide"
    assert event == {"topic": "test1", "subscription": "A", "messages": expected}
    assert functions.made == [("lambda", None, 3)]


def test_an_arn_is_invoked_in_its_region(fake: FakeWorld) -> None:
    arn = "arn:aws:lambda:eu-west-1:123456789012:function:decide"
    functions = FakeFunctions(lambda event: {"verdicts": [True]})

    assert ask(fake, functions, [message()], function=arn, timeout_seconds=7) == (True,)
    assert functions.made == [("lambda", "eu-west-1", 7)]
    assert functions.calls[0][0] == arn


@pytest.mark.parametrize(
    "answer",
    [
        {"verdicts": [True]},
        {"verdicts": [True, True, True]},
        {"verdicts": [True, 1]},
        {"verdicts": [True, None]},
        {"verdicts": "yes"},
        {"verdict": [True, True]},
        [True, True],
        None,
        b"",
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_any_other_answer_is_an_error(fake: FakeWorld, answer: object) -> None:
    assert ask(fake, FakeFunctions(lambda event: answer), [message(), message()]) is None


def test_a_failed_function_is_an_error_whatever_it_answered(fake: FakeWorld) -> None:
    functions = FakeFunctions(lambda event: {"verdicts": [True]}, fault="Unhandled")

    assert ask(fake, functions, [message()]) is None


def test_a_refusal_of_lambda_is_an_error(fake: FakeWorld) -> None:
    def refuse(event: object) -> object:
        raise ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "Invoke")

    assert ask(fake, FakeFunctions(refuse), [message()]) is None


def test_a_function_that_takes_too_long_is_an_error(fake: FakeWorld) -> None:
    def slow(event: object) -> object:
        time.sleep(1.3)
        return {"verdicts": [True]}

    assert ask(fake, FakeFunctions(slow), [message()], timeout_seconds=1) is None


def test_an_event_too_large_for_lambda_is_asked_in_parts(fake: FakeWorld) -> None:
    functions = FakeFunctions(lambda event: {"verdicts": [each["body"][-1] == "1" for each in event["messages"]]})
    asked = [message(b"\x00" * 250_000 + str(number % 2).encode()) for number in range(10)]

    assert ask(fake, functions, asked) == (False, True) * 5
    assert len(functions.calls) > 1
    assert all(len(json.dumps(event)) <= EVENT_BYTES_MAX for _, event in functions.calls)
