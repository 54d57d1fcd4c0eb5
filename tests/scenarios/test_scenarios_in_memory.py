"""The five scenarios of CMQ topic mode on the shipped use cases, with ports in memory."""

from __future__ import annotations

import pytest
from tagcast.model import Entry, EntryState, Strategy, Subscription
from tagcast.operating import lanes, messages
from tagcast.registry import topics
from tagcast.registry.subscriptions import get_subscription
from tagcast.rows.state_map import Round, StateMap

from tests.fakes.world import FAIL, OK, FakeWorld

BODIES = [f"{n:03d}" for n in range(1, 201)]
FRUIT = ("apple", "imac", "iphone", "macbook")


def owed(fake: FakeWorld, name: str) -> list[lanes.DueDelivery]:
    return list(lanes.backlog(fake.world, "test1", name, 1000, None).items)


def test_scenario_1a_one_fails_and_blocks_the_99_behind_it_until_it_recovers() -> None:
    fake = FakeWorld()
    fake.topic()
    for name in "ABC":
        fake.subscribe(name)
    recovered = False
    fake.pusher.behaviours["A"] = lambda push: OK if push.message.draft.body < b"101" or recovered else FAIL

    fake.publish(*BODIES)
    fake.deliver()

    backlog = owed(fake, "A")
    assert len(backlog) == 100
    assert [delivery.attempts for delivery in backlog] == [1] + [0] * 99
    assert fake.pusher.received["A"] == BODIES[:100]
    assert fake.pusher.received["B"] == fake.pusher.received["C"] == BODIES
    assert topics.retained_count(fake.world, "test1") == 100

    fake.run_workflows(until=fake.clock.instant + 50_000)

    tried = [push.message.draft.body.decode() for push in fake.pusher.pushes if push.subscription.name == "A"]
    assert tried[100:105] == ["101", "101", "101", "101", "102"]
    head = backlog[0].message_id
    assert messages.message_view(fake.world, "test1", head).subscribers["A"].state is EntryState.DISCARDED

    recovered = True
    lanes.retry_now(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + 100_000)
    fake.relay_ends()

    assert fake.pusher.received["A"] == BODIES[:100] + BODIES[101:]
    assert lanes.lane_view(fake.world, _subscription(fake, "A")).state == "active"
    assert topics.retained_count(fake.world, "test1") == 0


def _subscription(fake: FakeWorld, name: str) -> Subscription:
    return get_subscription(fake.world, "test1", name)


def test_scenario_1b_lost_contact_retains_old_and_new_and_a_re_push_does_not_touch_it() -> None:
    fake = FakeWorld()
    fake.topic()
    for name in "AB":
        fake.subscribe(name, strategy=Strategy.EXPONENTIAL_DECAY_RETRY)
        fake.pusher.behaviours[name] = lambda push: FAIL
    fake.publish(*BODIES[:110])
    fake.deliver()
    fake.subscribe("C")
    assert topics.retained_count(fake.world, "test1") == 110
    before = len(fake.pusher.pushes)

    fake.publish(*BODIES[:100])
    fake.deliver()

    assert topics.retained_count(fake.world, "test1") == 210
    assert fake.pusher.received["C"] == BODIES[:100]
    assert lanes.retry_topic(fake.world, "test1") == ()
    assert {push.subscription.name for push in fake.pusher.pushes[before:]} == {"C"}
    assert lanes.lane_view(fake.world, _subscription(fake, "A")).state == "lost_contact"


def test_scenario_1c_the_union_of_what_failed_is_retained_and_the_rest_deleted() -> None:
    fails_a, fails_b = set(range(100, 200)), set(range(90, 120))
    retained = 0
    for message in range(200):
        got = {0: message not in fails_a, 1: message not in fails_b, 2: True}
        delivered = {who: Entry(EntryState.DELIVERED, 1, 1) for who, ok in got.items() if ok}
        retained += StateMap.folded([(frozenset(got), Round.of(0, delivered))], {}).pending > 0

    assert len(fails_a & fails_b) == 20
    assert retained == 110


def test_scenario_1_nothing_outlives_one_day_from_its_own_publication() -> None:
    fake = FakeWorld()
    fake.topic()
    fake.subscribe("A", strategy=Strategy.EXPONENTIAL_DECAY_RETRY)
    fake.pusher.behaviours["A"] = lambda push: FAIL
    [message_id] = fake.publish("1")
    accepted_at = fake.clock.instant
    fake.deliver()

    fake.run_workflows(until=accepted_at + 2 * 86_400_000)

    entry = messages.message_view(fake.world, "test1", message_id).subscribers["A"]
    assert entry.state.is_terminal
    assert entry.last_attempt_at is not None
    assert entry.last_attempt_at < accepted_at + 86_400_000
    assert entry.attempts == 177


def test_scenario_2_a_message_that_all_received_is_deleted_at_once() -> None:
    fake = FakeWorld()
    fake.topic("test2")
    for name in "ABC":
        fake.subscribe(name, topic="test2")

    ids = fake.publish(*BODIES, topic="test2")
    fake.deliver()

    views = [messages.message_view(fake.world, "test2", message_id) for message_id in ids]
    assert {view.state for view in views} == {"deleted"}
    assert all(view.body is None for view in views)
    assert topics.retained_count(fake.world, "test2") == 0


@pytest.mark.parametrize(
    ("tags", "counts"),
    [
        pytest.param(
            {"A": ["apple"], "B": ["xiaomi"], "C": [], "D": ["imac", "xiaomi"]},
            {"A": 100, "B": 0, "C": 100, "D": 100},
            id="scenario 3: tags decide; untagged C receives, against the older text and with its own rule 2",
        ),
        pytest.param(
            {"A": [], "B": [], "C": [], "D": []},
            {"A": 100, "B": 100, "C": 100, "D": 100},
            id="scenario 4: nobody has tags",
        ),
        pytest.param({"A": ["xiaomi"]}, {"A": 0}, id="scenario 5: nothing matches"),
    ],
)
def test_scenarios_3_to_5(tags: dict[str, list[str]], counts: dict[str, int]) -> None:
    fake = FakeWorld()
    fake.topic()
    for name, wanted in tags.items():
        fake.subscribe(name, *wanted)

    ids = fake.publish(*BODIES[:100], tags=FRUIT)
    fake.deliver()

    assert {name: len(fake.pusher.received[name]) for name in tags} == counts
    state = "deleted" if any(counts.values()) else "unmatched"
    assert {messages.message_view(fake.world, "test1", message_id).state for message_id in ids} == {state}
    assert topics.retained_count(fake.world, "test1") == 0
