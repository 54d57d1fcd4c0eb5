"""Why a subscription did or did not get a message, when subscriptions come and go."""

import json
from typing import Any

import pytest
from tagcast.operating import lanes
from tagcast.operating.explaining import explain
from tagcast.registry import subscriptions
from tagcast.registry.filter_history import VERSIONS_KEPT
from tagcast.rows.message import FILTER_ERROR_NAMES_MAX, GARBAGE_S

from tests.fakes.world import FakeWorld

REMOVED = "the subscription was deleted at 2027-01-15T08:00:00.000Z, before the message was accepted"


def told(fake: FakeWorld, message_id: str) -> tuple[object, object]:
    answer = explain(fake.world, "test1", message_id, "A")
    return answer["existed"], answer["reason"]


def test_a_subscription_that_was_removed_before_says_when(fake: FakeWorld) -> None:
    fake.subscribe("A")
    [seen] = fake.first_round("first")
    subscriptions.delete_subscription(fake.world, "test1", "A")
    [missed] = fake.publish("second")
    assert told(fake, missed) == (False, REMOVED)
    assert told(fake, seen) == (True, "its filter matched; the delivery is delivered (delivered at the first attempt)")


def test_a_message_that_was_accepted_before_the_removal_was_for_it(fake: FakeWorld) -> None:
    fake.subscribe("A", "apple")
    [other] = fake.publish("pear", tags=["pear"])
    [pending] = fake.publish("apple", tags=["apple"])
    subscriptions.delete_subscription(fake.world, "test1", "A")
    assert told(fake, other) == (True, "its filter did not match")
    fake.deliver()
    assert told(fake, pending) == (True, "its filter matched; the delivery is cancelled")


def test_without_its_body_a_pattern_tells_the_stored_verdict_and_why_there_is_no_tree(fake: FakeWorld) -> None:
    for name, wanted in (("A", 7), ("B", 8)):
        pattern = {"kind": "event_pattern", "pattern": {"price": [wanted]}}
        fake.subscribe(name, filter=pattern)
    [message_id] = fake.publish('{"price": 7}')

    before = explain(fake.world, "test1", message_id, "B")["filter"]
    fake.deliver()
    after = {name: explain(fake.world, "test1", message_id, name)["filter"] for name in "AB"}

    assert before["explanation"]["children"][0]["note"] == "price is 7"  # type: ignore[index]
    for name, verdict in (("A", "matched"), ("B", "not_matched")):
        told = after[name]
        assert (told["verdict"], told["explanation"]["children"]) == (verdict, [])  # type: ignore[index]
        assert "the body is deleted" in told["explanation"]["note"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("answer", "verdict", "state", "reason"),
    [
        (False, "not_matched", "filtered", "before the first push, its filter function or the filter that replaced it"),
        (
            None,
            "error",
            "discarded",
            "the delivery is discarded (filter_error): the filter function rate gave no verdict",
        ),
        (True, "matched", "delivered", "its filter matched; the delivery is delivered"),
    ],
)
def test_the_verdict_of_a_filter_function_is_the_one_that_it_gave(
    fake: FakeWorld, answer: bool | None, verdict: str, state: str, reason: str
) -> None:
    fake.subscribe("A", filter={"kind": "function", "function": "rate"})
    fake.filter_functions.behaviours["A"] = lambda asked: None if answer is None else (answer,) * len(asked)
    [message_id] = fake.first_round("1")

    told: Any = explain(fake.world, "test1", message_id, "A")

    assert (told["filter"]["verdict"], told["delivery"]["state"]) == (verdict, state)
    assert told["received"] is (state == "delivered")
    assert told["reason"].startswith(reason)


def test_a_filter_is_known_as_long_as_the_receipt_is_however_often_it_changed(fake: FakeWorld) -> None:
    fake.subscribe("A", "apple")
    [matched] = fake.publish("apple", tags=["apple"])
    [other] = fake.first_round("pear", tags=["pear"])
    for number in range(2 * VERSIONS_KEPT):
        fake.subscribe("A", f"fig{number}")
    fake.clock.sleep(86_400 + GARBAGE_S - 1)
    fake.subscribe("A", "plum")

    assert told(fake, matched)[1] == "its filter matched; the delivery is delivered (delivered at the first attempt)"
    assert told(fake, other) == (True, "its filter did not match")


def test_of_many_failed_filters_the_unnamed_ones_are_not_said_to_match_nothing(fake: FakeWorld) -> None:
    fake.subscribe("matches")
    for number in range(FILTER_ERROR_NAMES_MAX + 1):
        fake.subscribe(f"S{number}", filter={"kind": "event_pattern", "pattern": {"a": [{"cidr": "10.0.0.0/8"}]}})
    [message_id] = fake.first_round(json.dumps({"a": ["11.0.0.1"] * 2_174}))

    assert fake.telemetry.counts["filter_failed"] == FILTER_ERROR_NAMES_MAX + 1

    def note(number: int) -> str:
        filter: Any = explain(fake.world, "test1", message_id, f"S{number}")["filter"]
        return f"{filter['verdict']}: {filter['explanation']['note']}"

    assert [note(number) for number in (0, 99, 100)] == [
        "error: the body is deleted; this is the filter's stored verdict",
        "error: the body is deleted; this is the filter's stored verdict",
        "not_matched: the body is deleted; it did not match, or failed: 100 failures are stored by name",
    ]


def test_the_lane_of_a_deleted_subscription_is_not_that_of_a_later_one_of_its_name(fake: FakeWorld) -> None:
    fake.subscribe("A")
    lanes.pause(fake.world, "test1", "A")
    [message_id] = fake.first_round("x")
    subscriptions.delete_subscription(fake.world, "test1", "A")
    fake.subscribe("A")

    delivery: Any = explain(fake.world, "test1", message_id, "A")["delivery"]
    assert delivery["lane"] == "removed"


def test_of_several_subscriptions_of_one_name_the_last_one_is_explained(fake: FakeWorld) -> None:
    fake.subscribe("A", "apple")
    subscriptions.delete_subscription(fake.world, "test1", "A")
    fake.subscribe("A", "apple")
    [other] = fake.publish("pear", tags=["pear"])
    assert told(fake, other) == (True, "its filter did not match")
    subscriptions.delete_subscription(fake.world, "test1", "A")
    assert told(fake, other) == (True, "its filter did not match")


def test_a_later_subscription_of_the_name_does_not_hide_the_one_of_the_message(fake: FakeWorld) -> None:
    [none] = fake.publish("before", tags=["pear"])
    fake.subscribe("A", "apple")
    [other] = fake.publish("pear", tags=["pear"])
    subscriptions.delete_subscription(fake.world, "test1", "A")
    [missed] = fake.publish("between", tags=["pear"])
    fake.subscribe("A", "pear")

    assert told(fake, other) == (True, "its filter did not match")
    assert told(fake, missed) == (False, REMOVED)
    assert told(fake, none) == (False, "the subscription was created after the message was accepted")
