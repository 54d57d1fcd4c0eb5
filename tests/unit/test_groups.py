"""Pull groups in the registry: made with a queue and a secret of their own, and fixed in what their queue rests on."""

import json
from typing import Any

import pytest
from tagcast.errors import UnavailableError
from tagcast.model import EntryState, LaneState
from tagcast.ports import GroupQueue
from tagcast.registry.directory import read_topic
from tagcast.registry.subscriptions import delete_subscription, get_subscription
from tagcast.rows import stored

from tests.fakes.handlers import answered
from tests.fakes.raced_store import throttled
from tests.fakes.world import FakeWorld
from tests.unit.worlds import entry

PULL = {"endpoint": {"protocol": "pull"}}
PAUSE_S = 30
"""The workflow's pause after a fault (functions/redelivery.asl.json)."""
HTTP = {"endpoint": {"protocol": "https", "url": "https://example.com/hook"}}


def put(fake: FakeWorld, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    reply = answered(fake.world, "PUT", "/topics/test1/subscriptions/g", json.dumps(body))
    return reply["statusCode"], json.loads(reply["body"])


def test_a_new_group_has_a_queue_and_a_secret_that_stay(fake: FakeWorld) -> None:
    group = fake.group("g")
    again = fake.group("g", max_retries=7)

    assert list(fake.group_queues.queues) == [GroupQueue(group.subscription_id, ordered=False)]
    assert group.settings.secret
    assert again.settings.secret == group.settings.secret
    assert fake.group("h").settings.secret != group.settings.secret


def test_without_its_queue_no_group_is_made(fake: FakeWorld) -> None:
    fake.group_queues.broken = True

    with pytest.raises(UnavailableError):
        fake.group("g")
    assert stored.subscription(fake.store, "test1", "g") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [(PULL, HTTP), (HTTP, PULL), (PULL, {**PULL, "ordered": True}), ({**PULL, "ordered": True}, PULL)],
)
def test_what_a_queue_rests_on_never_changes(fake: FakeWorld, before: dict[str, Any], after: dict[str, Any]) -> None:
    put(fake, before)

    status, answer = put(fake, after)

    assert (status, answer["code"]) == (409, "conflict")
    assert get_subscription(fake.world, "test1", "g").version == 1


@pytest.mark.parametrize("field", ["secret", "timeout_seconds", "content_format"])
def test_a_group_has_nothing_of_pushes(fake: FakeWorld, field: str) -> None:
    value = {"secret": f"whsec_{'A' * 32}", "timeout_seconds": 5, "content_format": "json"}[field]
    status, answer = put(fake, {**PULL, field: value})

    assert (status, [fault["pointer"] for fault in answer["errors"]]) == (422, [f"#/{field}"])


def test_a_group_never_shows_its_secret(fake: FakeWorld) -> None:
    _, answer = put(fake, PULL)
    known = get_subscription(fake.world, "test1", "g")

    assert known.settings.secret is not None
    assert known.settings.secret not in json.dumps(answer) + repr(known)


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_what_a_removed_group_was_owed_is_cancelled_and_its_queue_goes(
    fake: FakeWorld, ordered: bool, is_held: bool
) -> None:
    group = fake.group("g", ordered=ordered)
    ids = fake.first_round(*(f"{number}" for number in range(25)))
    assert fake.telemetry.counts["HandedOver"] == 25
    if is_held:
        answered(fake.world, "POST", "/topics/test1/subscriptions/g/pull", '{"visibility_timeout_seconds": 3600}')
    delete_subscription(fake.world, "test1", "g")
    fake.run_for(4_200 if is_held else 60)

    assert {entry(fake, each, "g").state for each in ids} == {EntryState.CANCELLED}
    assert not fake.group_queues.queues
    lane = stored.lane(fake.store, "test1", group.subscription_id)
    assert lane is not None
    assert (lane.state, lane.wake_at) == (LaneState.REMOVED, None)


def test_what_a_removed_group_had_pulled_in_vain_says_how_often_and_when_last(fake: FakeWorld) -> None:
    fake.group("g")
    [message_id] = fake.first_round("pulled once")
    pulled_at = fake.clock.instant
    answered(fake.world, "POST", "/topics/test1/subscriptions/g/pull", '{"visibility_timeout_seconds": 10}')
    fake.clock.sleep(11)
    delete_subscription(fake.world, "test1", "g")
    fake.run_for(60)

    ended = entry(fake, message_id, "g")
    assert (ended.state, ended.attempts, ended.last_outcome) == (EntryState.CANCELLED, 1, "not acknowledged in time")
    assert ended.last_attempt_at is not None
    assert ended.last_attempt_at > pulled_at


def test_what_a_paused_group_was_owed_is_cancelled_wherever_it_lies(fake: FakeWorld) -> None:
    fake.group("g")
    fake.first_round("in the queue")
    answered(fake.world, "POST", "/topics/test1/subscriptions/g/pause", "{}")
    fake.first_round("in the backlog")
    delete_subscription(fake.world, "test1", "g")
    fake.run_for(60)

    assert not fake.group_queues.queues
    fake.relay_ends()
    assert all(not row["pending"] for key, row in fake.store.rows.items() if key.sk == "MSG")


def test_what_a_worker_received_but_could_not_cancel_is_cancelled_by_the_next(fake: FakeWorld) -> None:
    fake.group("g")
    ids = fake.first_round("a", "b")
    delete_subscription(fake.world, "test1", "g")
    tasks = list(fake.workflow.tasks)

    with pytest.raises(UnavailableError), throttled(fake.store, lambda key: key.sk.startswith("END#")):
        fake.run_for(600)

    fake.clock.sleep(PAUSE_S)
    fake.workflow.tasks += tasks
    fake.run_for(600)

    assert {entry(fake, each, "g").state for each in ids} == {EntryState.CANCELLED}
    assert not fake.group_queues.queues


def test_a_queue_that_cannot_be_emptied_now_is_emptied_later(fake: FakeWorld) -> None:
    fake.group("g")
    [message_id] = fake.first_round("a")
    fake.group_queues.broken = True
    delete_subscription(fake.world, "test1", "g")
    with pytest.raises(UnavailableError):
        fake.run_for(60)

    fake.group_queues.broken = False
    fake.clock.sleep(120)
    fake.sweep()
    fake.run_for(60)

    assert entry(fake, message_id, "g").state is EntryState.CANCELLED
    assert not fake.group_queues.queues


def test_queues_without_a_group_are_removed_and_no_others(fake: FakeWorld) -> None:
    fake.subscribe("pushed")
    alive = GroupQueue.of(fake.group("alive"))
    being_emptied = GroupQueue.of(fake.group("removed"))
    delete_subscription(fake.world, "test1", "removed")
    topic = read_topic(fake.world, "test1")
    of_no_group = GroupQueue(f"{topic.topic_id}.0", ordered=False)
    of_no_topic = GroupQueue(f"{'9' * 20}.0", ordered=True)
    being_made = GroupQueue(f"{topic.topic_id}.{topic.next_ordinal}", ordered=False)
    for queue in (of_no_group, of_no_topic, being_made):
        fake.group_queues.make(queue)

    fake.sweep()

    assert set(fake.group_queues.queues) == {alive, being_emptied, being_made}


def test_queues_of_groups_of_every_topic_stay(fake: FakeWorld) -> None:
    queues = set()
    for number in range(5):
        fake.topic(f"t{number}")
        queues.add(GroupQueue.of(fake.group("g", topic=f"t{number}")))

    fake.sweep()

    assert set(fake.group_queues.queues) == queues
