"""The rate of a subscription: no more attempts a second than it allows, whoever makes them; what is over it waits."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from tagcast.model import EntryState, Message, Outcome, Push, Strategy, Subscription
from tagcast.ports import Write
from tagcast.pushing.rate_limit import HORIZON_S, RATE
from tagcast.registry import subscriptions

from tests.fakes.calls import Before
from tests.fakes.raced_store import throttled
from tests.fakes.world import FAIL, OK, FakeWorld
from tests.unit.api.test_http_api import Reply
from tests.unit.worlds import ask, entry

HTTPS = {"protocol": "https", "url": "https://a.test/"}


def limited(fake: FakeWorld, per_second: float, strategy: Strategy = Strategy.BACKOFF_RETRY) -> Subscription:
    known = fake.subscribe("A", strategy=strategy)
    settings = replace(known.settings, max_per_second=per_second)
    return subscriptions.put_subscription(fake.world, "test1", "A", settings)[0]


def began_at(fake: FakeWorld, answer: Outcome = OK) -> list[int]:
    """Return where the instants of all attempts are noted."""
    instants: list[int] = []

    def note(push: Push) -> Outcome:
        instants.append(fake.clock.instant)
        return answer

    fake.pusher.behaviours["A"] = note
    return instants


def test_a_clock_that_was_wrong_for_a_while_stops_no_subscription(fake: FakeWorld) -> None:
    limited(fake, 0.05)
    instants = began_at(fake)
    began = fake.clock.instant
    fake.clock.instant = began + 25 * 3_600_000
    fake.first_round("far ahead")
    fake.clock.instant = began
    fake.first_round("now", "too soon")
    assert instants == [began + 25 * 3_600_000, began]


def test_what_is_over_the_rate_waits_in_the_backlog_without_an_attempt(fake: FakeWorld) -> None:
    limited(fake, 2.0)
    instants = began_at(fake)
    began = fake.clock.instant
    ids = fake.first_round(*map(str, range(10)))

    assert [instant - began for instant in instants] == [0, 500, 1000, 1500, 2000][: len(instants)]
    assert len(instants) >= HORIZON_S * 2
    left = [entry(fake, message_id) for message_id in ids[len(instants) :]]
    assert {(entry.state, entry.attempts, entry.last_outcome) for entry in left} == {(EntryState.BLOCKED, 0, RATE)}


@pytest.mark.parametrize("per_second", [0.25, 2.0, 40.0])
def test_the_rate_is_kept_within_a_fifth_and_used(fake: FakeWorld, per_second: float) -> None:
    limited(fake, per_second)
    instants = began_at(fake)
    for batch in range(3):
        fake.first_round(*(f"{batch}-{place}" for place in range(10)))
    fake.run_workflows(until=fake.clock.instant + 600_000)

    assert len(instants) == 30
    assert all(later - earlier >= 0.8 * 1000 / per_second for earlier, later in pairwise(instants))
    assert instants[-1] - instants[0] <= 1.2 * 29 * 1000 / per_second + 2_000
    assert len(fake.pusher.received["A"]) == len(set(fake.pusher.received["A"])) == 30


def test_a_worker_reads_few_more_messages_than_the_rate_lets_it_push(fake: FakeWorld, before: Before) -> None:
    limited(fake, 1.0, Strategy.EXPONENTIAL_DECAY_RETRY)
    ids = [each for batch in range(8) for each in fake.publish(*(f"{batch}-{place}" for place in range(10)))]
    fake.fail("A")
    fake.deliver()
    fake.pusher.behaviours["A"] = lambda push: OK
    read: list[str] = []
    before.each(fake.store, "get_many", lambda wanted: read.extend(key.pk for key in wanted if key.sk == "MSG"))
    fake.run_workflows(until=fake.clock.instant + 600_000)

    assert len(set(fake.pusher.received["A"])) == len(ids)
    assert len(ids) <= len(read) <= 2 * len(ids)


def test_where_time_is_scaled_a_rate_lets_as_many_more_begin_in_a_second(fake: FakeWorld) -> None:
    limited(fake, 2.0)
    fake.world = replace(fake.world, time_scale=10.0)
    instants = began_at(fake)
    began = fake.clock.instant
    for batch in range(4):
        fake.publish(*(f"{batch}-{place}" for place in range(10)))
    fake.deliver()
    fake.run_workflows(until=began + 2_000)

    assert sum(instant < began + 1_000 for instant in instants) == 20
    assert [later - earlier for earlier, later in pairwise(instants[:20])] == [50] * 19


def test_retries_count_as_well(fake: FakeWorld) -> None:
    limited(fake, 0.01, Strategy.EXPONENTIAL_DECAY_RETRY)
    instants = began_at(fake, FAIL)
    [message_id] = fake.first_round("1")
    fake.run_workflows(until=fake.clock.instant + 500_000)

    assert len(instants) == 5
    assert all(later - earlier >= 100_000 for earlier, later in pairwise(instants))
    assert entry(fake, message_id).attempts == 5


def test_who_loses_to_others_again_and_again_leaves_it_to_the_backlog(fake: FakeWorld) -> None:
    subscription = limited(fake, 5.0)
    known = fake.store.write

    def faster(write: Write) -> None:
        if write.key.pk.startswith("RATE#"):
            row = fake.store.rows.setdefault(write.key, {"pk": write.key.pk, "sk": write.key.sk, "free_us": 1})
            row["free_us"] += 1
        known(write)

    fake.store.write = faster  # type: ignore[method-assign]
    instants = began_at(fake)
    [message_id] = fake.first_round("1")

    assert subscription.settings.max_per_second == 5.0
    assert instants == []
    assert entry(fake, message_id).state is EntryState.BLOCKED


def test_a_throttled_rate_leaves_the_message_to_the_backlog_at_once(fake: FakeWorld) -> None:
    limited(fake, 5.0)
    with throttled(fake.store, lambda key: key.pk.startswith("RATE#")) as refused:
        [message_id] = fake.first_round("1")

    assert len(refused) == 1
    assert entry(fake, message_id).state is EntryState.BLOCKED


def test_a_subscription_without_a_rate_reads_and_writes_none(fake: FakeWorld) -> None:
    fake.subscribe("A")
    fake.first_round("1")

    assert not [key for key in fake.store.rows if key.pk.startswith("RATE#")]


def test_a_filter_function_is_asked_only_about_what_may_begin(fake: FakeWorld) -> None:
    known = limited(fake, 0.5)
    settings = replace(known.settings, filter={"kind": "function", "function": "decide"})
    subscriptions.put_subscription(fake.world, "test1", "A", settings)
    asked: list[int] = []

    def judge(found: Any) -> tuple[bool, ...]:
        assert all(isinstance(each, Message) for each in found)
        asked.append(len(found))
        return (True,) * len(found)

    fake.filter_functions.behaviours["A"] = judge
    fake.first_round(*map(str, range(5)))

    assert asked == [2]


def put(fake: FakeWorld, endpoint: dict[str, str], rate: object) -> Reply:
    return ask(fake, "PUT", "/topics/test1/subscriptions/A", {"endpoint": endpoint, "max_per_second": rate})


@pytest.mark.parametrize("rate", [0.01, 0.5, 1, 1000])
def test_a_rate_is_stored_and_shown(fake: FakeWorld, rate: float) -> None:
    assert put(fake, HTTPS, rate).status == 201
    assert ask(fake, "GET", "/topics/test1/subscriptions/A").json["max_per_second"] == rate


@pytest.mark.parametrize(
    ("endpoint", "rate"), [*((HTTPS, rate) for rate in (0, 0.009, 1000.1, -1, "1", True)), ({"protocol": "pull"}, 1)]
)
def test_what_is_no_rate_and_the_rate_of_a_group_are_refused(
    fake: FakeWorld, endpoint: dict[str, str], rate: object
) -> None:
    refused = put(fake, endpoint, rate)

    assert (refused.status, refused.pointers) == (422, ["#/max_per_second"])
