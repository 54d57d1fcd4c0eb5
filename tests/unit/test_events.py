"""Events of a topic: trouble with its deliveries is published to its events topic, as CloudEvents."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tagcast.archive.events import BURST, EVENTS_PER_S, KNOWN_S, EventPublisher
from tagcast.archive.record import Field, Record, RecordKind
from tagcast.errors import ConflictError, InvalidRequestError
from tagcast.model import Endpoint, Ordering, Outcome, Protocol, RetryPolicy, Strategy
from tagcast.operating.lanes import pause, resume
from tagcast.ports import World
from tagcast.registry import topics
from tagcast.registry.directory import read_topic
from tagcast.registry.subscriptions import change_filter, delete_subscription

from tests.fakes.calls import Before
from tests.fakes.stream import FakeStream
from tests.fakes.world import FAIL, OK, FakeWorld
from tests.unit.worlds import blocked

GONE, NO_ANSWER = Outcome(False, "http 410", gone=True), Outcome(False, "timeout after 15 s", unreached=True)
REFUSED = Outcome(False, "http 422", refused=True)


@pytest.fixture
def world() -> FakeWorld:
    """A world with a topic of events, which *watch* is subscribed to, and a topic whose events go there."""
    world = FakeWorld()
    world.topic("events", ordering=Ordering.NONE)
    world.subscribe("watch", topic="events")
    world.topic(events_topic="events", ordering=Ordering.NONE)
    return world


@pytest.fixture
def stream(world: FakeWorld) -> FakeStream:
    return FakeStream(world)


def told(world: FakeWorld, stream: FakeStream) -> list[Any]:
    """Hand over what changed to a process of the archive; return the events that *watch* got since the last time."""
    events, seen = EventPublisher(world.store, world.clock, lambda: world.world), len(world.pusher.pushes)
    for record in stream.records():
        events.publish(record)
    world.deliver()
    stream.records()
    pushed = [push.message for push in world.pusher.pushes[seen:] if push.subscription.name == "watch"]
    return [json.loads(message.draft.body) for message in pushed]


def types(found: list[Any]) -> list[str]:
    return [each["type"] for each in found]


def test_a_blocked_lane_a_discarded_delivery_and_the_recovery_are_told(world: FakeWorld, stream: FakeStream) -> None:
    [message_id] = blocked(world, "hello", name="a", max_retries=1)

    [event] = told(world, stream)
    world.run_for(3_600)
    ended = told(world, stream)

    assert event["type"] == "tagcast.lane.blocked"
    assert (event["specversion"], event["source"], event["subject"]) == ("1.0", "/topics/test1", "a")
    assert event["data"] == {"topic": "test1", "subscription": "a", "state": "blocked", "previous_state": "active"}
    assert sorted(types(ended)) == ["tagcast.delivery.discarded", "tagcast.lane.recovered"]
    [discarded] = [each for each in ended if each["type"] == "tagcast.delivery.discarded"]
    assert discarded["data"] == {
        "topic": "test1", "subscription": "a", "message_id": message_id,
        "state": "discarded", "attempts": 2, "last_outcome": "http 500",
    }  # fmt: skip


def test_an_event_is_a_message_with_its_type_as_tag(world: FakeWorld, stream: FakeStream) -> None:
    world.subscribe("a", answers=FAIL)
    world.subscribe("of-blocked", "lane.blocked", topic="events")
    world.subscribe("of-others", "lane.suspended", topic="events")
    world.first_round("hello")

    told(world, stream)

    [push] = [push for push in world.pusher.pushes if push.subscription.name == "of-blocked"]
    assert push.message.draft.properties == {"topic": "test1", "subscription": "a"}
    assert push.message.draft.content_type == "application/cloudevents+json"
    assert not [push for push in world.pusher.pushes if push.subscription.name == "of-others"]


@pytest.mark.parametrize(("outcome", "state"), [(NO_ANSWER, "lost_contact"), (GONE, "suspended")])
def test_what_stops_a_lane_under_the_default_is_told(
    world: FakeWorld, stream: FakeStream, outcome: Outcome, state: str
) -> None:
    world.subscribe("a", retry=RetryPolicy(Strategy.INDEPENDENT_RETRY, 176), answers=outcome)
    world.first_round("hello")

    assert types(told(world, stream)) == [f"tagcast.lane.{state}"]


def test_single_failures_beside_others_that_get_through_are_no_trouble_of_the_lane(
    world: FakeWorld, stream: FakeStream
) -> None:
    world.pusher.behaviours["a"] = lambda push: REFUSED if push.message.draft.body == b"bad" else OK
    world.subscribe("a", retry=RetryPolicy(Strategy.INDEPENDENT_RETRY, 1))
    world.first_round("good", "bad", "good")
    assert told(world, stream) == []

    world.run_for(3_600)
    assert types(told(world, stream)) == ["tagcast.delivery.discarded"]


def test_an_expired_delivery_is_told(world: FakeWorld, stream: FakeStream) -> None:
    world.pusher.behaviours["a"] = lambda push: FAIL
    world.topic(events_topic="events", ordering=Ordering.NONE, retention_s=600)
    world.subscribe("a", strategy=Strategy.EXPONENTIAL_DECAY_RETRY)
    world.first_round("hello")
    world.run_for(3_600)

    assert "tagcast.delivery.expired" in types(told(world, stream))


def test_an_endpoint_that_becomes_unverified_is_told(world: FakeWorld, stream: FakeStream) -> None:
    world.subscribe("a")
    assert told(world, stream) == []
    world.subscribe("a", unverified="http 404")

    [event] = told(world, stream)
    assert (event["type"], event["data"]["reason"]) == ("tagcast.endpoint.unverified", "http 404")

    change_filter(world.world, "test1", "a", {"kind": "tags", "tags": ["x"]})
    assert told(world, stream) == []
    world.subscribe("a", "x", endpoint=Endpoint(Protocol.HTTP, "http://elsewhere.test/"), unverified="http 500")
    assert types(told(world, stream)) == ["tagcast.endpoint.unverified"]


def test_a_person_who_pauses_and_resumes_is_not_trouble(world: FakeWorld, stream: FakeStream) -> None:
    world.subscribe("a")
    for act in (pause, resume):
        act(world.world, "test1", "a")
        assert told(world, stream) == []


@pytest.mark.parametrize(
    ("end", "state"),
    [(lambda world: pause(world, "test1", "a"), "paused"), (lambda w: delete_subscription(w, "test1", "a"), "removed")],
)
def test_trouble_that_a_person_ends_is_told_to_be_over(
    world: FakeWorld, stream: FakeStream, end: Callable[[World], object], state: str
) -> None:
    blocked(world, "hello", name="a")
    assert types(told(world, stream)) == ["tagcast.lane.blocked"]

    end(world.world)
    [event] = told(world, stream)

    assert (event["type"], event["data"]["state"]) == ("tagcast.lane.recovered", state)
    assert event["data"]["subscription"] == "a"


def test_changes_that_come_again_are_told_once(world: FakeWorld, stream: FakeStream) -> None:
    blocked(world, "hello", name="a")
    records = stream.records()
    for _ in range(3):
        for record in records:
            EventPublisher(world.store, world.clock, lambda: world.world).publish(record)

    assert types(told(world, stream)) == ["tagcast.lane.blocked"]


def away(*_: object) -> None:
    raise TimeoutError


def test_a_table_that_cannot_take_an_event_lets_the_change_come_again(
    world: FakeWorld, stream: FakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked(world, "hello", name="a")
    [record] = [each for each in stream.records() if each.kind is RecordKind.LANES]
    events = EventPublisher(world.store, world.clock, lambda: world.world)
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "transact", away)
        patch.setattr(world.store, "write", away)
        with pytest.raises(TimeoutError):
            events.publish(record)
    events.publish(record)

    assert types(told(world, stream)) == ["tagcast.lane.blocked"]


def lane(number: int) -> Record:
    fields: dict[str, Field] = {"topic": "test1", "ordinal": 99, "state": "blocked", "previous_state": "active"}
    return Record(RecordKind.LANES, fields | {"changed_at": 1, "record_id": f"lane {number}"})


def test_above_its_bound_a_topic_is_told_how_many_were_omitted(world: FakeWorld, stream: FakeStream) -> None:
    events = EventPublisher(world.store, world.clock, lambda: world.world)
    for number in range(BURST + 7):
        events.publish(lane(number))
    assert len(told(world, stream)) == BURST
    assert world.telemetry.counts["EventsOmitted"] == 7

    world.clock.sleep(2 / EVENTS_PER_S)
    for number in range(2):
        events.publish(lane(1_000 + number))

    assert [each["data"].get("omitted_before") for each in told(world, stream)] == [7, None]


def test_events_of_an_unknown_subscription_name_its_ordinal(world: FakeWorld, stream: FakeStream) -> None:
    EventPublisher(world.store, world.clock, lambda: world.world).publish(lane(1))

    [event] = told(world, stream)
    assert (event["subject"], "subscription" in event["data"]) == ("ordinal 99", False)


def test_a_topic_that_was_removed_takes_no_event_and_that_is_counted(world: FakeWorld) -> None:
    delete_subscription(world.world, "events", "watch")
    topics.delete_topic(world.world, "events")
    EventPublisher(world.store, world.clock, lambda: world.world).publish(lane(1))

    assert world.telemetry.counts["EventsLost"] == 1
    assert world.telemetry.faults == [], "a setting of a topic's owner raises no alarm of the deployment's"


def test_an_events_topic_that_is_changed_is_heard_of_soon(world: FakeWorld, stream: FakeStream) -> None:
    events = EventPublisher(world.store, world.clock, lambda: world.world)
    events.publish(lane(1))
    world.topic(ordering=Ordering.NONE)
    world.clock.sleep(KNOWN_S)
    events.publish(lane(2))

    assert len(told(world, stream)) == 1


def test_events_go_to_the_bus_only_if_the_deployment_says_so(world: FakeWorld) -> None:
    EventPublisher(world.store, world.clock, lambda: world.world).publish(lane(1))
    assert world.event_bus.events == []

    EventPublisher(world.store, world.clock, lambda: world.world, to_bus=True).publish(lane(2))
    assert [each["type"] for each in world.event_bus.events] == ["tagcast.lane.blocked"]


def test_trouble_with_events_is_told_nowhere_unless_their_topic_asks_for_it(
    world: FakeWorld, stream: FakeStream
) -> None:
    world.pusher.behaviours |= {"a": lambda push: FAIL, "watch": lambda push: FAIL}
    world.subscribe("a", max_retries=1)
    world.publish("hello")
    for _ in range(5):
        world.deliver()
        world.run_for(3_600)
        told(world, stream)

    events = [each for each in world.pusher.pushes if each.message.topic == "events"]
    assert {each.message.draft.properties["topic"] for each in events} == {"test1"}


@pytest.mark.parametrize(
    ("name", "events_topic", "reason"),
    [
        ("test1", "test1", "is the topic itself"),
        ("test1", "nobody", "does not exist"),
        ("events", "test1", "has an events_topic itself"),
        ("fresh", "fresh", "is the topic itself"),
        ("fresh", "test1", "has an events_topic itself"),
    ],
)
def test_topics_of_events_make_no_ring(world: FakeWorld, name: str, events_topic: str, reason: str) -> None:
    kind = InvalidRequestError if name == events_topic else ConflictError
    with pytest.raises(kind, match=reason):
        world.topic(name, events_topic=events_topic, ordering=Ordering.NONE)


def test_two_topics_that_are_set_to_each_other_at_once_make_no_ring(world: FakeWorld, before: Before) -> None:
    world.topic("first", ordering=Ordering.NONE)
    world.topic("second", ordering=Ordering.NONE)
    overtake = partial(world.topic, "second", events_topic="first", ordering=Ordering.NONE)
    before.next(world.store, "transact", overtake)
    with pytest.raises(ConflictError):
        world.topic("first", events_topic="second", ordering=Ordering.NONE)

    assert read_topic(world.world, "first").settings.events_topic is None


def test_other_settings_change_although_the_events_topic_is_gone(world: FakeWorld) -> None:
    delete_subscription(world.world, "events", "watch")
    topics.delete_topic(world.world, "events")

    topics.change_topic(world.world, "test1", lambda settings: replace(settings, retention_s=600))

    assert read_topic(world.world, "test1").settings.retention_s == 600
