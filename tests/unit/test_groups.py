"""Pull groups in the registry: made with a queue and a secret of their own, and fixed in what their queue rests on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tagcast.errors import UnavailableError
from tagcast.model import LaneState
from tagcast.operating.messages import message_view
from tagcast.ports import GroupQueue, Key
from tagcast.registry import subscriptions
from tagcast.registry.directory import read_topic
from tagcast.rows import stored

from tests.fakes.handlers import answered
from tests.fakes.raced_store import throttled
from tests.fakes.world import FakeWorld

PULL = {"endpoint": {"protocol": "pull"}}
PAUSE_S = 30
"""The workflow's pause after a fault (functions/redelivery.asl.json)."""
HTTP = {"endpoint": {"protocol": "https", "url": "https://example.com/hook"}}


@pytest.fixture
def world() -> FakeWorld:
    fakes = FakeWorld()
    fakes.topic()
    return fakes


def put(world: FakeWorld, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    reply = answered(world.world, "PUT", "/topics/test1/subscriptions/g", json.dumps(body))
    return reply["statusCode"], json.loads(reply["body"])


def test_a_group_is_a_subscription_whose_endpoint_is_nowhere(world: FakeWorld) -> None:
    status, answer = put(world, {**PULL, "ordered": True, "dead_letter_topic": "dead"})

    assert (status, answer["endpoint"], answer["ordered"]) == (201, {"protocol": "pull"}, True)
    assert answer["dead_letter_topic"] == "dead"
    known = stored.subscription(world.store, "test1", "g")
    assert known is not None
    assert (known.settings.ordered, known.settings.dead_letter_topic) == (True, "dead")


def test_a_new_group_has_a_queue_and_a_secret_that_stay(world: FakeWorld) -> None:
    group = world.group("g")
    again = world.group("g", max_retries=7)

    assert list(world.group_queues.queues) == [GroupQueue(group.subscription_id, ordered=False)]
    assert group.settings.secret
    assert again.settings.secret == group.settings.secret
    assert world.group("h").settings.secret != group.settings.secret


def test_without_its_queue_no_group_is_made(world: FakeWorld) -> None:
    world.group_queues.broken = True

    with pytest.raises(UnavailableError):
        world.group("g")
    assert stored.subscription(world.store, "test1", "g") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [(PULL, HTTP), (HTTP, PULL), (PULL, {**PULL, "ordered": True}), ({**PULL, "ordered": True}, PULL)],
)
def test_what_a_queue_rests_on_never_changes(world: FakeWorld, before: dict[str, Any], after: dict[str, Any]) -> None:
    put(world, before)

    status, answer = put(world, after)

    assert (status, answer["code"]) == (409, "conflict")
    known = stored.subscription(world.store, "test1", "g")
    assert known is not None
    assert known.version == 1


@pytest.mark.parametrize("field", ["secret", "timeout_seconds", "content_format"])
def test_a_group_has_nothing_of_pushes(world: FakeWorld, field: str) -> None:
    value = {"secret": f"whsec_{'A' * 32}", "timeout_seconds": 5, "content_format": "json"}[field]
    status, answer = put(world, {**PULL, field: value})

    assert (status, [fault["pointer"] for fault in answer["errors"]]) == (422, [f"#/{field}"])


def test_a_group_never_shows_its_secret(world: FakeWorld) -> None:
    _, answer = put(world, PULL)
    known = stored.subscription(world.store, "test1", "g")

    assert known is not None
    assert known.settings.secret is not None
    assert known.settings.secret not in json.dumps(answer) + repr(known)


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_what_a_removed_group_was_owed_is_cancelled_and_its_queue_goes(
    world: FakeWorld, ordered: bool, is_held: bool
) -> None:
    group = world.group("g", ordered=ordered)
    ids = world.first_round(*(f"{number}" for number in range(25)))
    if is_held:
        answered(world.world, "POST", "/topics/test1/subscriptions/g/pull", '{"visibility_timeout_seconds": 3600}')
    subscriptions.delete_subscription(world.world, "test1", "g")
    world.run_for(4_200 if is_held else 60)

    states = {message_view(world.world, "test1", each).subscribers["g"].state.value for each in ids}
    assert states == {"cancelled"}
    assert not world.group_queues.queues
    lane = stored.lane(world.store, "test1", group.subscription_id)
    assert lane is not None
    assert (lane.state, lane.wake_at) == (LaneState.REMOVED, None)


def test_what_a_removed_group_had_pulled_in_vain_says_how_often_and_when_last(world: FakeWorld) -> None:
    world.group("g")
    [message_id] = world.first_round("pulled once")
    pulled_at = world.clock.instant
    answered(world.world, "POST", "/topics/test1/subscriptions/g/pull", '{"visibility_timeout_seconds": 10}')
    world.clock.sleep(11)
    subscriptions.delete_subscription(world.world, "test1", "g")
    world.run_for(60)

    entry = message_view(world.world, "test1", message_id).subscribers["g"]
    assert (entry.state.value, entry.attempts, entry.last_outcome) == ("cancelled", 1, "not acknowledged in time")
    assert entry.last_attempt_at is not None
    assert entry.last_attempt_at > pulled_at


def test_what_a_paused_group_was_owed_is_cancelled_wherever_it_lies(world: FakeWorld) -> None:
    world.group("g")
    world.first_round("in the queue")
    answered(world.world, "POST", "/topics/test1/subscriptions/g/pause", "{}")
    world.first_round("in the backlog")
    subscriptions.delete_subscription(world.world, "test1", "g")
    world.run_for(60)

    assert not world.group_queues.queues
    world.relay_ends()
    assert all(not row["pending"] for key, row in world.store.rows.items() if key.sk == "MSG")


def test_what_a_worker_received_but_could_not_cancel_is_cancelled_by_the_next(world: FakeWorld) -> None:
    world.group("g")
    ids = world.first_round("a", "b")
    subscriptions.delete_subscription(world.world, "test1", "g")
    tasks = list(world.workflow.tasks)

    def is_end(key: Key) -> bool:
        return key.sk.startswith("END#")

    with pytest.raises(UnavailableError), throttled(world.store, is_end):
        world.run_for(600)

    world.clock.sleep(PAUSE_S)
    world.workflow.tasks += tasks
    world.run_for(600)

    states = {message_view(world.world, "test1", each).subscribers["g"].state.value for each in ids}
    assert states == {"cancelled"}
    assert not world.group_queues.queues


def test_a_queue_that_cannot_be_emptied_now_is_emptied_later(world: FakeWorld) -> None:
    world.group("g")
    [message_id] = world.first_round("a")
    world.group_queues.broken = True
    subscriptions.delete_subscription(world.world, "test1", "g")
    with pytest.raises(UnavailableError):
        world.run_for(60)

    world.group_queues.broken = False
    world.clock.sleep(120)
    world.sweep()
    world.run_for(60)

    assert message_view(world.world, "test1", message_id).subscribers["g"].state.value == "cancelled"
    assert not world.group_queues.queues


def test_queues_without_a_group_are_removed_and_no_others(world: FakeWorld) -> None:
    world.subscribe("pushed")
    alive = GroupQueue.of(world.group("alive"))
    being_emptied = GroupQueue.of(world.group("removed"))
    subscriptions.delete_subscription(world.world, "test1", "removed")
    topic = read_topic(world.world, "test1")
    of_no_group = GroupQueue(f"{topic.topic_id}.0", ordered=False)
    of_no_topic = GroupQueue(f"{'9' * 20}.0", ordered=True)
    being_made = GroupQueue(f"{topic.topic_id}.{topic.next_ordinal}", ordered=False)
    for queue in (of_no_group, of_no_topic, being_made):
        world.group_queues.make(queue)

    world.sweep()

    assert set(world.group_queues.queues) == {alive, being_emptied, being_made}


def test_queues_of_groups_of_every_page_of_topics_stay(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tagcast.repairing.removals.TOPICS_AT_ONCE", 2)
    queues = set()
    for number in range(5):
        world.topic(f"t{number}")
        queues.add(GroupQueue.of(world.group("g", topic=f"t{number}")))

    world.sweep()

    assert set(world.group_queues.queues) == queues
