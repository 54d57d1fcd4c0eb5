"""Why a subscription did or did not get a message, when subscriptions come and go."""

from tagcast.operating.explaining import explain
from tagcast.registry import subscriptions

from tests.fakes.world import FakeWorld

REMOVED = "the subscription was deleted at 2027-01-15T08:00:00.000Z, before the message was accepted"


def told(fake: FakeWorld, message_id: str) -> tuple[object, object]:
    answer = explain(fake.world, "test1", message_id, "A")
    return answer["existed"], answer["reason"]


def test_a_subscription_that_was_removed_before_says_when(fake: FakeWorld) -> None:
    fake.subscribe("A")
    [seen] = fake.publish("first")
    fake.deliver()
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


def test_of_several_subscriptions_of_one_name_the_last_one_is_explained(fake: FakeWorld) -> None:
    fake.subscribe("A", "apple")
    subscriptions.delete_subscription(fake.world, "test1", "A")
    fake.subscribe("A", "apple")
    [other] = fake.publish("pear", tags=["pear"])
    assert told(fake, other) == (True, "its filter did not match")
    subscriptions.delete_subscription(fake.world, "test1", "A")
    assert told(fake, other) == (True, "its filter did not match")
