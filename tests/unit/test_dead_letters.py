"""Dead letters of pushes: what a subscription gives up is published to its dead-letter topic before it ends."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tagcast.errors import ConditionLostError, UnavailableError
from tagcast.model import EntryState, Outcome, Strategy, Subscription
from tagcast.operating.lanes import pause, skip_head
from tagcast.registry import shadows
from tagcast.repairing.expiry import expire_messages
from tagcast.tables import Update, Write

from tests.fakes.handlers import answered
from tests.fakes.world import FakeWorld
from tests.unit.worlds import entry

DAY_S = 86_400


@pytest.fixture
def world(fake: FakeWorld) -> FakeWorld:
    """A world with a topic and a dead-letter topic, which *watch* is subscribed to."""
    fake.topic("dead")
    fake.subscribe("watch", topic="dead")
    fake.fail("a", "b", "back")
    return fake


def subscribed(
    world: FakeWorld, name: str = "a", *, max_retries: int = 1, dead_letter_topic: str = "dead", **settings: Any
) -> Subscription:
    return world.subscribe(name, max_retries=max_retries, dead_letter_topic=dead_letter_topic, **settings)


def state(world: FakeWorld, message_id: str) -> EntryState:
    return entry(world, message_id, "a").state


def letters(world: FakeWorld) -> list[dict[str, str]]:
    """Deliver the dead letters; return what they say of their origin."""
    world.deliver()
    found = [dict(push.message.properties) for push in world.pusher.pushes if push.message.topic == "dead"]
    return [{name.removeprefix("dead_letter_"): value for name, value in each.items()} for each in found]


def test_a_push_that_is_discarded_is_published_with_its_end_attempts_and_last_outcome(world: FakeWorld) -> None:
    subscribed(world, max_retries=2)
    [message_id] = world.first_round("hello")
    assert letters(world) == []

    world.run_for(3_600)

    assert state(world, message_id) is EntryState.DISCARDED
    expected = {"of": message_id, "from": "test1/a", "state": "discarded", "attempts": "3", "outcome": "http 500"}
    assert letters(world) == [expected]
    [letter] = [push.message for push in world.pusher.pushes if push.message.topic == "dead"]
    assert (letter.body, letter.message_id != message_id) == (b"hello", True)


def test_no_key_of_a_producer_is_that_of_a_letter(world: FakeWorld) -> None:
    discarding = subscribed(world)
    [message_id] = world.publish("hello")
    key = f"dead letter {discarding.subscription_id} {message_id}"
    taken = answered(world.world, "POST", "/topics/dead/messages", '{"body": "x"}', {"Idempotency-Key": key})
    assert taken["statusCode"] == 201
    world.deliver()
    world.run_for(3_600)

    assert state(world, message_id) is EntryState.DISCARDED
    assert [each.get("of") for each in letters(world)] == [None, message_id]


def test_a_letter_says_what_the_receiver_said_last(world: FakeWorld) -> None:
    subscribed(world)
    refused = Outcome(False, "http 422", status=422, answer=b"no such customer")
    world.pusher.behaviours["a"] = lambda push: refused
    world.first_round("hello")
    world.run_for(3_600)

    assert [each["response"] for each in letters(world)] == ["no such customer"]


def test_without_retries_the_first_round_publishes_the_letter(world: FakeWorld) -> None:
    subscribed(world, max_retries=0)
    ids = world.first_round("one", "two", "three")

    assert [each["of"] for each in letters(world)] == ids
    assert {state(world, each) for each in ids} == {EntryState.DISCARDED}


@pytest.mark.parametrize("expired", [False, True])
def test_what_expires_makes_a_letter_only_where_that_is_chosen(world: FakeWorld, expired: bool) -> None:
    world.topic(retention_s=3_600)
    subscribed(world, max_retries=176, strategy=Strategy.EXPONENTIAL_DECAY_RETRY, dead_letter_expired=expired)
    [message_id] = world.first_round("hello")
    world.run_for(7_200)

    assert state(world, message_id) is EntryState.EXPIRED
    assert [each["state"] for each in letters(world)] == (["expired"] if expired else [])


def test_what_expires_in_the_queue_makes_a_letter(world: FakeWorld) -> None:
    subscribed(world, dead_letter_expired=True)
    world.publish("hello")
    world.clock.sleep(DAY_S)

    world.deliver()

    assert [(each["state"], each["attempts"]) for each in letters(world)] == [("expired", "0")]


def test_what_expires_behind_a_paused_lane_makes_a_letter(world: FakeWorld) -> None:
    subscribed(world, dead_letter_expired=True)
    pause(world.world, "test1", "a")
    ids = world.first_round("one", "two")
    world.clock.sleep(DAY_S)

    world.sweep()

    assert {state(world, each) for each in ids} == {EntryState.EXPIRED}
    assert [each["of"] for each in letters(world)] == ids


def test_what_the_search_finds_expired_makes_a_letter(world: FakeWorld) -> None:
    subscribed(world, dead_letter_expired=True)
    [message_id] = world.publish("hello")
    world.clock.sleep(DAY_S)

    asyncio.run(expire_messages(world.world, "test1", [(message_id, None)]))

    assert state(world, message_id) is EntryState.EXPIRED
    assert [each["of"] for each in letters(world)] == [message_id]


def test_what_a_person_skips_makes_no_letter(world: FakeWorld) -> None:
    subscribed(world, dead_letter_expired=True)
    [message_id] = world.first_round("hello")
    skip_head(world.world, "test1", "a", "a test")

    assert state(world, message_id) is EntryState.CANCELLED
    assert letters(world) == []


def test_each_of_two_subscriptions_that_give_a_message_up_makes_a_letter(world: FakeWorld) -> None:
    for name in "ab":
        subscribed(world, name, max_retries=0)
    [message_id] = world.first_round("hello")

    assert sorted(each["from"] for each in letters(world)) == ["test1/a", "test1/b"]
    assert {each["of"] for each in letters(world)} == {message_id}


def test_a_letter_that_is_given_up_makes_no_second_one(world: FakeWorld) -> None:
    subscribed(world, max_retries=0)
    subscribed(world, "back", max_retries=0, topic="dead", dead_letter_topic="test1")
    world.first_round("hello")
    world.deliver()

    assert [push.message.topic for push in world.pusher.pushes].count("test1") == 1
    assert world.telemetry.counts["DeadLettersLost"] == 1


def test_a_shadow_of_the_dead_letter_topic_counts_the_letter(world: FakeWorld) -> None:
    shadows.put_shadow(world.world, "dead", "watch", {"kind": "tags", "tags": ["x"]})
    subscribed(world, max_retries=0)
    world.first_round("hello")

    counts = shadows.get_shadow(world.world, "dead", "watch").counts
    assert {verdict.value: count for verdict, count in counts.items() if count} == {"only_active": 1}


@pytest.mark.parametrize("max_retries", [0, 1])
@pytest.mark.parametrize("of_letters", [True, False])
def test_an_accident_around_the_letter_loses_none_and_stores_one(
    world: FakeWorld, max_retries: int, of_letters: bool
) -> None:
    subscribed(world, max_retries=max_retries)
    [message_id] = world.publish("hello")
    if max_retries:
        world.deliver()
        world.clock.sleep(60)

    def refuse_once(writes: Sequence[Write]) -> None:
        of_dead = [write for write in writes if write.key.pk.startswith("MSG#dead#")]
        ends = [write for write in writes if write.key.pk.startswith("MSG#test1#")]
        ends = [write for write in ends if write.key.sk.startswith("END#") or isinstance(write, Update)]
        if of_dead if of_letters else ends:
            world.store.before_transact = lambda writes: None
            raise UnavailableError("the table is away")

    world.store.before_transact = refuse_once

    def work() -> None:
        if max_retries:
            [task] = world.workflow.tasks
            world.redeliver(task)
        else:
            world.fan_out("test1", [message_id])

    with pytest.raises((UnavailableError, ConditionLostError)):
        work()
    assert not state(world, message_id).is_terminal
    world.clock.sleep(300)
    work()

    assert state(world, message_id) is EntryState.DISCARDED
    assert [each["of"] for each in letters(world)] == [message_id]
