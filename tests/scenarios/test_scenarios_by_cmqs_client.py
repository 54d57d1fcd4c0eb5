"""The five scenarios by Tencent's own client; what CMQ has no action for is asked of the native use cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from tagcast.model import EntryState
from tagcast.operating import lanes, messages
from tagcast.registry import topics
from tagcast.registry.subscriptions import get_subscription

from tests.cmq.in_process import Program
from tests.fakes.world import FAIL, OK, FakeWorld

BODIES = [f"{n:03d}" for n in range(1, 201)]
FRUIT = ("apple", "imac", "iphone", "macbook")
DECAY = "EXPONENTIAL_DECAY_RETRY"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(FakeWorld(), tmp_path, monkeypatch)


def owed(program: Program, name: str) -> int:
    return int(program.account.get_subscription("test1", name).get_attributes().inactiveMsgNum)


def retained(program: Program, topic: str = "test1") -> int:
    program.fake.relay_ends()
    return int(program.account.get_topic(topic).get_attributes().msgCount)


def test_scenario_1a_one_fails_and_blocks_the_99_behind_it_until_it_recovers(program: Program) -> None:
    fake = program.fake
    program.topic("test1")
    for name in "ABC":
        program.subscribe("test1", name)
    recovered = False
    fake.pusher.behaviours["A"] = lambda push: OK if push.message.draft.body < b"101" or recovered else FAIL

    ids = program.publish("test1", BODIES)
    fake.deliver()

    assert [owed(program, name) for name in "ABC"] == [100, 0, 0]
    assert fake.pusher.received["A"] == BODIES[:100]
    assert fake.pusher.received["B"] == fake.pusher.received["C"] == BODIES
    assert retained(program) == 100

    fake.run_workflows(until=fake.clock.instant + 50_000)
    head = messages.message_view(fake.world, "test1", ids[100])
    assert (head.subscribers["A"].state, head.subscribers["A"].attempts) == (EntryState.DISCARDED, 4)

    recovered = True
    lanes.retry_now(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + 100_000)

    assert fake.pusher.received["A"] == BODIES[:100] + BODIES[101:]
    assert (owed(program, "A"), retained(program)) == (0, 0)


def test_scenario_1b_lost_contact_retains_old_and_new_and_a_re_push_does_not_touch_it(program: Program) -> None:
    fake = program.fake
    program.topic("test1")
    for name in "AB":
        program.subscribe("test1", name, strategy=DECAY)
        fake.pusher.behaviours[name] = lambda push: FAIL
    program.publish("test1", BODIES[:110])
    fake.deliver()
    program.subscribe("test1", "C", strategy=DECAY)
    assert retained(program) == 110
    before = len(fake.pusher.pushes)

    program.publish("test1", BODIES[:100])
    fake.deliver()

    assert (retained(program), owed(program, "A"), owed(program, "C")) == (210, 210, 0)
    assert fake.pusher.received["C"] == BODIES[:100]
    assert lanes.retry_topic(fake.world, "test1") == ()
    assert {push.subscription.name for push in fake.pusher.pushes[before:]} == {"C"}
    assert lanes.lane_view(fake.world, get_subscription(fake.world, "test1", "A")).state == "lost_contact"


def test_scenario_1c_the_union_of_what_failed_is_retained_and_the_rest_deleted(program: Program) -> None:
    fake = program.fake
    program.topic("test1")
    fails = {"A": range(100, 200), "B": range(90, 120), "C": range(0)}
    for name, failing in fails.items():
        program.subscribe("test1", name, strategy=DECAY)
        bodies = {BODIES[place].encode() for place in failing}
        fake.pusher.behaviours[name] = lambda push, bodies=bodies: FAIL if push.message.draft.body in bodies else OK  # type: ignore[misc]

    ids = program.publish("test1", BODIES)
    fake.deliver()

    states = [messages.message_view(fake.world, "test1", each).subscribers for each in ids]
    by_a = {place for place, found in enumerate(states) if not found["A"].state.is_terminal}
    by_b = {place for place, found in enumerate(states) if not found["B"].state.is_terminal}
    assert by_a == set(fails["A"])
    assert by_b >= set(fails["B"])
    assert retained(program) == len(by_a | by_b)


def test_scenario_1_nothing_outlives_one_day_from_its_own_publication(program: Program) -> None:
    fake = program.fake
    program.topic("test1")
    program.subscribe("test1", "A", strategy=DECAY)
    fake.pusher.behaviours["A"] = lambda push: FAIL
    [message_id] = program.publish("test1", ["1"])
    accepted_at = fake.clock.instant
    fake.deliver()

    fake.run_workflows(until=accepted_at + 2 * 86_400_000)

    entry = messages.message_view(fake.world, "test1", message_id).subscribers["A"]
    assert (entry.state.is_terminal, entry.attempts) == (True, 177)
    assert (entry.last_attempt_at or 0) < accepted_at + 86_400_000
    assert retained(program) == 0


def test_scenario_2_a_message_that_all_received_is_deleted_at_once(program: Program) -> None:
    fake = program.fake
    program.topic("test2")
    for name in "ABC":
        program.subscribe("test2", name)

    ids = program.publish("test2", BODIES)
    fake.deliver()

    views = [messages.message_view(fake.world, "test2", message_id) for message_id in ids]
    assert {view.state for view in views} == {"deleted"}
    assert all(view.body is None for view in views)
    assert retained(program, "test2") == 0


@pytest.mark.parametrize(
    ("tags", "counts"),
    [
        pytest.param(
            {"A": ["apple"], "B": ["xiaomi"], "C": [], "D": ["imac", "xiaomi"]},
            {"A": 100, "B": 0, "C": 100, "D": 100},
            id="scenario 3: tags decide; untagged C receives",
        ),
        pytest.param(
            {"A": [], "B": [], "C": [], "D": []},
            {"A": 100, "B": 100, "C": 100, "D": 100},
            id="scenario 4: nobody has tags",
        ),
    ],
)
def test_scenarios_3_and_4(program: Program, tags: dict[str, list[str]], counts: dict[str, int]) -> None:
    program.topic("test1")
    for name, wanted in tags.items():
        program.subscribe("test1", name, *wanted)

    program.publish("test1", BODIES[:100], *FRUIT)
    program.fake.deliver()

    assert {name: len(program.fake.pusher.received[name]) for name in tags} == counts
    assert retained(program) == 0


def test_scenario_5_what_matches_nobody_is_refused_and_leaves_nothing(program: Program) -> None:
    from cmq.cmq_exception import CMQServerException

    program.topic("test1")
    program.subscribe("test1", "A", "xiaomi")

    with pytest.raises(CMQServerException) as refused:
        program.publish("test1", BODIES[:16], *FRUIT)
    program.fake.deliver()

    assert refused.value.code == 6030
    assert not topics.retained_count(program.fake.world, "test1")
    assert not [key for key in program.fake.store.rows if key.sk == "MSG"]
