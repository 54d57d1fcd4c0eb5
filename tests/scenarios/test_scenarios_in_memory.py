"""The five scenarios of CMQ topic mode with ports in memory, by Tencent's own client."""

from __future__ import annotations

from pathlib import Path

import pytest
from tagcast.model import EntryState
from tagcast.operating import lanes, messages
from tagcast.registry.subscriptions import get_subscription

from tests.cmq.in_process import Program
from tests.fakes.world import FAIL, OK, FakeWorld

BODIES = [f"{n:03d}" for n in range(1, 201)]
FRUIT = ("apple", "imac", "iphone", "macbook")
DECAY = "EXPONENTIAL_DECAY_RETRY"


class ByCmq(Program):
    """What CMQ has no action for is asked of the use cases."""

    def pending(self, name: str) -> int:
        return int(self.account.get_subscription("test1", name).get_attributes().inactiveMsgNum)

    def retained(self, topic: str = "test1") -> int:
        self.fake.relay_ends()
        return int(self.account.get_topic(topic).get_attributes().msgCount)


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ByCmq:
    return ByCmq(FakeWorld(), tmp_path, monkeypatch)


def test_scenario_1a_one_fails_and_blocks_the_99_behind_it_until_it_recovers(door: ByCmq) -> None:
    fake = door.fake
    door.topic("test1")
    for name in "ABC":
        door.subscribe("test1", name)
    recovered = False
    fake.pusher.behaviours["A"] = lambda push: OK if push.message.draft.body < b"101" or recovered else FAIL

    ids = door.publish("test1", BODIES)
    fake.deliver()

    backlog = lanes.backlog(fake.world, "test1", "A", 1000, None).items
    assert [delivery.attempts for delivery in backlog] == [1] + [0] * 99
    assert [door.pending(name) for name in "ABC"] == [100, 0, 0]
    assert fake.pusher.received["A"] == BODIES[:100]
    assert fake.pusher.received["B"] == fake.pusher.received["C"] == BODIES
    assert door.retained() == 100

    fake.run_workflows(until=fake.clock.instant + 50_000)

    tried = [push.message.draft.body.decode() for push in fake.pusher.pushes if push.subscription.name == "A"]
    assert tried[100:105] == ["101", "101", "101", "101", "102"]
    head = messages.message_view(fake.world, "test1", ids[100]).subscribers["A"]
    assert (head.state, head.attempts) == (EntryState.DISCARDED, 4)

    recovered = True
    lanes.retry_now(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + 100_000)

    assert fake.pusher.received["A"] == BODIES[:100] + BODIES[101:]
    assert lane_state(fake, "A") == "active"
    assert (door.pending("A"), door.retained()) == (0, 0)


def lane_state(fake: FakeWorld, name: str) -> str:
    return lanes.lane_view(fake.world, get_subscription(fake.world, "test1", name)).state


def test_scenario_1b_lost_contact_retains_old_and_new_and_a_re_push_does_not_touch_it(door: ByCmq) -> None:
    fake = door.fake
    door.topic("test1")
    for name in "AB":
        door.subscribe("test1", name, strategy=DECAY)
        fake.pusher.behaviours[name] = lambda push: FAIL
    door.publish("test1", BODIES[:110])
    fake.deliver()
    door.subscribe("test1", "C", strategy=DECAY)
    assert door.retained() == 110
    before = len(fake.pusher.pushes)

    door.publish("test1", BODIES[:100])
    fake.deliver()

    assert (door.retained(), door.pending("A"), door.pending("C")) == (210, 210, 0)
    assert fake.pusher.received["C"] == BODIES[:100]
    assert lanes.retry_topic(fake.world, "test1") == ()
    assert {push.subscription.name for push in fake.pusher.pushes[before:]} == {"C"}
    assert lane_state(fake, "A") == "lost_contact"


def test_scenario_1c_the_union_of_what_failed_is_retained_and_the_rest_deleted(door: ByCmq) -> None:
    fake = door.fake
    door.topic("test1")
    fails = {"A": range(100, 200), "B": range(90, 120), "C": range(0)}
    for name, failing in fails.items():
        door.subscribe("test1", name, strategy=DECAY)
        bodies = {BODIES[place].encode() for place in failing}
        fake.pusher.behaviours[name] = lambda push, bodies=bodies: FAIL if push.message.draft.body in bodies else OK  # type: ignore[misc]

    ids = door.publish("test1", BODIES)
    fake.deliver()

    states = [messages.message_view(fake.world, "test1", each).subscribers for each in ids]
    by_a = {place for place, found in enumerate(states) if not found["A"].state.is_terminal}
    by_b = {place for place, found in enumerate(states) if not found["B"].state.is_terminal}
    assert by_a == set(fails["A"])
    assert by_b >= set(fails["B"])
    assert door.retained() == len(by_a | by_b)


def test_scenario_1_nothing_outlives_one_day_from_its_own_publication(door: ByCmq) -> None:
    fake = door.fake
    door.topic("test1")
    door.subscribe("test1", "A", strategy=DECAY)
    fake.pusher.behaviours["A"] = lambda push: FAIL
    [message_id] = door.publish("test1", ["1"])
    accepted_at = fake.clock.instant
    fake.deliver()

    fake.run_workflows(until=accepted_at + 2 * 86_400_000)

    entry = messages.message_view(fake.world, "test1", message_id).subscribers["A"]
    assert (entry.state.is_terminal, entry.attempts) == (True, 177)
    assert entry.last_attempt_at is not None
    assert entry.last_attempt_at < accepted_at + 86_400_000
    assert door.retained() == 0


def test_scenario_2_a_message_that_all_received_is_deleted_at_once(door: ByCmq) -> None:
    door.topic("test2")
    for name in "ABC":
        door.subscribe("test2", name)

    ids = door.publish("test2", BODIES)
    door.fake.deliver()

    views = [messages.message_view(door.fake.world, "test2", message_id) for message_id in ids]
    assert {view.state for view in views} == {"deleted"}
    assert all(view.body is None for view in views)
    assert door.retained("test2") == 0


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
    ],
)
def test_scenarios_3_and_4(door: ByCmq, tags: dict[str, list[str]], counts: dict[str, int]) -> None:
    door.topic("test1")
    for name, wanted in tags.items():
        door.subscribe("test1", name, *wanted)

    ids = door.publish("test1", BODIES[:100], *FRUIT)
    door.fake.deliver()

    assert {name: len(door.fake.pusher.received[name]) for name in tags} == counts
    views = [messages.message_view(door.fake.world, "test1", message_id) for message_id in ids]
    assert {view.state for view in views} == {"deleted"}
    assert door.retained() == 0


def test_scenario_5_cmq_refuses_what_matches_nobody_and_stores_nothing(door: ByCmq) -> None:
    from cmq.cmq_exception import CMQServerException

    door.topic("test1")
    door.subscribe("test1", "A", "xiaomi")

    with pytest.raises(CMQServerException) as refused:
        door.publish("test1", BODIES[:16], *FRUIT)
    door.fake.deliver()

    assert refused.value.code == 6030
    assert not [key for key in door.fake.store.rows if key.sk == "MSG" or key.pk.startswith("RETAINED#")]
