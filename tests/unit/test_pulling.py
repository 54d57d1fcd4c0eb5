"""Pull groups, from the first round to the last acknowledgement, in one process."""

import asyncio
import heapq
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tagcast.delivery import publishing
from tagcast.delivery.fan_out import SubscriptionRound
from tagcast.errors import UnavailableError
from tagcast.model import Draft, EntryState, Keep, LaneState, Ordering, Subscription, TopicSettings
from tagcast.operating import lanes
from tagcast.operating.lanes import LaneView
from tagcast.operating.messages import message_view
from tagcast.ports import GroupQueue, QueueEntry, Table
from tagcast.pulling.group import end_after_pull
from tagcast.registry import subscriptions, topics
from tagcast.registry.subscriptions import get_subscription
from tagcast.repairing.expiry import expire_messages
from tagcast.rows import stored
from tagcast.rows.due import PendingDelivery, due_put, position
from tagcast.rows.keys import end_key, pulled_key, retained_key
from tagcast.rows.lane_transitions import join
from tagcast.rows.message import MessageRow
from tagcast.tables import Put
from tagcast.trace_context import make_trace

from local.rules.limits import LAMBDA_PAYLOAD_BYTES_MAX
from tests.fakes.calls import Before
from tests.fakes.group_queues import FakeGroupQueues
from tests.fakes.handlers import answered
from tests.fakes.raced_store import throttled
from tests.fakes.world import FakeWorld
from tests.unit.worlds import ask, lane, row_of

GROUP, OTHER_GROUP = "/topics/test1/subscriptions/g", "/topics/test1/subscriptions/h"
MINUTE = 60_000


@pytest.fixture
def world(fake: FakeWorld) -> Iterator[FakeWorld]:
    fake.group("g")
    yield fake
    assert fake.telemetry.faults == []


def asked(world: FakeWorld, verb: str, group: str = GROUP, **body: Any) -> tuple[int, dict[str, Any]]:
    reply = ask(world, "POST", f"{group}/{verb}", body)
    return reply.status, reply.json


def pull(world: FakeWorld, **wish: Any) -> list[dict[str, Any]]:
    status, answer = asked(world, "pull", **wish)
    assert status == 200, answer
    found: list[dict[str, Any]] = answer["messages"]
    return found


def said(world: FakeWorld, verb: str, *messages: dict[str, Any], **more: Any) -> list[str]:
    handles = [each["receipt_handle"] for each in messages]
    status, answer = asked(world, verb, receipt_handles=handles, **more)
    assert status == 200, answer
    assert [each["receipt_handle"] for each in answer["results"]] == handles
    return [each["status"] for each in answer["results"]]


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [each["body"] for each in messages]


def entry(world: FakeWorld, message_id: str) -> tuple[str, int, str | None]:
    found = message_view(world.world, "test1", message_id).subscribers["g"]
    return found.state.value, found.attempts, found.last_outcome


def view(world: FakeWorld) -> LaneView:
    return lanes.lane_view(world.world, get_subscription(world.world, "test1", "g"))


def comes_after(world: FakeWorld, seconds: int) -> list[int]:
    """Assert that nothing is pulled before so many seconds; return the attempts of what is pulled then."""
    world.clock.sleep(seconds - 1)
    assert pull(world) == []
    world.clock.sleep(1)
    return [each["attempt"] for each in pull(world)]


def test_what_is_pulled_and_acknowledged_is_delivered(world: FakeWorld) -> None:
    ids = world.first_round("a", "b")
    assert [entry(world, each) for each in ids] == [("pending", 0, None)] * 2

    messages = pull(world)
    assert bodies(messages) == ["a", "b"]
    assert said(world, "ack", *messages) == ["acknowledged"] * 2

    assert [entry(world, each) for each in ids] == [("delivered", 1, "acknowledged")] * 2
    assert [message_view(world.world, "test1", each).state for each in ids] == ["deleted"] * 2
    assert pull(world) == []
    assert world.group_queues.counts(next(iter(world.group_queues.queues))).in_flight == 0


def test_four_members_that_are_equally_fast_share_evenly(world: FakeWorld) -> None:
    ids = [each for start in range(0, 800, 100) for each in world.first_round(*map(str, range(start, start + 100)))]
    chance, shares, busy = random.Random(0), Counter[str](), dict[str, list[dict[str, Any]]]()
    plan = [(world.clock.instant + place, name) for place, name in enumerate("abcd")]
    while sum(shares.values()) < len(ids):
        world.clock.instant, name = heapq.heappop(plan)
        if done := busy.get(name):
            assert said(world, "ack", *done) == ["acknowledged"] * len(done)
            shares[name] += len(done)
        busy[name] = pull(world, max_messages=10, member_id=name)
        pause_ms = chance.randint(500, 1_500) if busy[name] else 100
        heapq.heappush(plan, (world.clock.instant + pause_ms, name))

    assert all(abs(share - 200) <= 0.2 * 200 for share in shares.values()), shares
    assert {entry(world, each)[0] for each in ids} == {"delivered"}


def test_what_is_acknowledged_was_attempted_when_it_was_pulled(world: FakeWorld) -> None:
    [message_id] = world.first_round("a")
    pulled_at = world.clock.now()
    messages = pull(world)
    world.clock.sleep(7)
    said(world, "ack", *messages)

    assert message_view(world.world, "test1", message_id).subscribers["g"].last_attempt_at == pulled_at


def test_a_message_that_is_acknowledged_costs_two_writes_more_than_one_that_is_pushed(world: FakeWorld) -> None:
    before = world.store.writes
    world.first_round("a")
    said(world, "ack", *pull(world))

    assert world.store.writes - before == 3  # The message, its first round, its end.
    world.relay_ends()
    assert world.store.writes - before == 4  # It is let go; it stood in no list.


def test_what_was_handed_over_is_owed_without_any_other_row(world: FakeWorld) -> None:
    [message_id] = world.first_round("a")
    row = row_of(world, message_id)

    assert row.map.pending == row.map.enqueued == {0}
    assert (row.map.waiting, row.has_body) == (frozenset(), True)
    assert retained_key("test1", message_id) not in world.store.rows
    assert {key.pk.partition("#")[0] for key in world.store.rows if key.table is Table.MESSAGES} == {"MSG"}


def test_what_is_not_acknowledged_in_time_comes_again_and_is_blocked(world: FakeWorld) -> None:
    [message_id] = world.first_round("a")
    [first] = pull(world, visibility_timeout_seconds=30)
    assert pull(world) == []
    assert entry(world, message_id) == ("pending", 0, None)

    world.clock.sleep(30)
    [second] = pull(world)

    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert entry(world, message_id) == ("blocked", 1, "not acknowledged in time")
    assert said(world, "ack", second) == ["acknowledged"]
    assert entry(world, message_id) == ("delivered", 2, "acknowledged")


def test_a_handle_says_nothing_any_more_when_its_time_is_over(world: FakeWorld) -> None:
    [message_id] = world.first_round("a")
    [stale] = pull(world, visibility_timeout_seconds=30)
    world.clock.sleep(30)

    for verb in ("ack", "nack", "extend"):
        assert said(world, verb, stale) == ["expired"]
    assert entry(world, message_id) == ("pending", 0, None)
    [again] = pull(world)
    said(world, "ack", again)
    assert said(world, "ack", stale) == ["already_acknowledged"]


@pytest.mark.parametrize("held_s", [0, 1, 43, 280])
def test_what_is_given_back_long_after_its_pull_waits_as_long_as_it_was_asked_for(
    world: FakeWorld, held_s: int
) -> None:
    [message_id] = world.first_round("a")
    [message] = pull(world, visibility_timeout_seconds=300)
    world.clock.sleep(held_s)

    assert said(world, "nack", message, delay_seconds=90) == ["returned"]
    assert entry(world, message_id) == ("blocked", 1, "returned")
    assert comes_after(world, 90) == [2]
    assert entry(world, message_id) == ("blocked", 1, "not acknowledged in time")


def test_where_time_is_scaled_what_is_given_back_comes_as_much_sooner(world: FakeWorld) -> None:
    world.world = replace(world.world, time_scale=10.0)
    world.first_round("a")
    [message] = pull(world, visibility_timeout_seconds=3_000)

    assert said(world, "nack", message, delay_seconds=90) == ["returned"]
    assert comes_after(world, 9) == [2]


def test_who_needs_longer_gets_a_new_handle(world: FakeWorld) -> None:
    world.first_round("a")
    [message] = pull(world, visibility_timeout_seconds=30)
    world.clock.sleep(20)
    _, answer = asked(world, "extend", receipt_handles=[message["receipt_handle"]], visibility_timeout_seconds=60)
    [result] = answer["results"]
    assert result["status"] == "extended"

    world.clock.sleep(59)
    assert pull(world) == []
    assert said(world, "ack", message) == ["expired"]
    assert said(world, "ack", {"receipt_handle": result["new_receipt_handle"]}) == ["acknowledged"]


def test_what_its_queue_does_not_hide_any_longer_is_not_extended(world: FakeWorld) -> None:
    """The clock of a queue may be ahead of ours: then somebody else may have the message by now."""
    world.first_round("a")
    [message] = pull(world, visibility_timeout_seconds=30)
    [[held]] = world.group_queues.queues.values()
    held.visible_at = world.clock.now()

    assert said(world, "extend", message, visibility_timeout_seconds=60) == ["expired"]
    assert [each["attempt"] for each in pull(world)] == [2]


def test_nobody_keeps_a_message_for_more_than_twelve_hours(world: FakeWorld) -> None:
    world.first_round("a", "b")
    first, second = pull(world, visibility_timeout_seconds=43_200)
    world.clock.sleep(3_600)
    handles = [each["receipt_handle"] for each in (first, second)]

    status, answer = asked(world, "extend", receipt_handles=handles, visibility_timeout_seconds=43_200 - 3_599)
    assert status == 422
    assert [each["pointer"] for each in answer["errors"]] == ["#/receipt_handles/0", "#/receipt_handles/1"]
    assert said(world, "extend", first, visibility_timeout_seconds=43_200 - 3_600) == ["extended"]
    assert said(world, "nack", second, delay_seconds=43_200) == ["returned"]
    world.clock.sleep(43_200 - 3_600)
    assert bodies(pull(world)) == ["a", "b"]


def test_after_its_retries_a_message_is_discarded(world: FakeWorld) -> None:
    world.group("g", max_retries=2)
    [message_id] = world.first_round("a")
    pulls = []
    for _ in range(3):
        pulls += pull(world)
        said(world, "nack", pulls[-1])

    assert pull(world) == []
    assert [each["attempt"] for each in pulls] == [1, 2, 3]
    assert entry(world, message_id) == ("discarded", 3, "returned")
    assert said(world, "ack", pulls[-1]) == ["over"]
    assert message_view(world.world, "test1", message_id).state == "deleted"


def gives_up_to(world: FakeWorld, topic: str, group: str = GROUP) -> None:
    body = {"endpoint": {"protocol": "pull"}, "retry": {"max_retries": 0}, "dead_letter_topic": topic}
    assert ask(world, "PUT", group, body).status in (200, 201)


def discarded_to(world: FakeWorld, topic: str) -> str:
    gives_up_to(world, topic)
    [message_id] = world.first_round("a")
    said(world, "nack", *pull(world))
    assert pull(world) == []
    assert entry(world, message_id) == ("discarded", 1, "returned")
    return message_id


def test_what_is_discarded_is_published_to_its_dead_letter_topic_once(world: FakeWorld) -> None:
    world.topic("dead")
    world.subscribe("watch", topic="dead")
    message_id = discarded_to(world, "dead")
    world.deliver()

    [push] = world.pusher.pushes
    origin = {"dead_letter_of": message_id, "dead_letter_from": "test1/g", "dead_letter_state": "discarded"}
    origin |= {"dead_letter_attempts": "1", "dead_letter_outcome": "returned"}
    assert (push.message.draft.body, dict(push.message.properties)) == (b"a", origin)
    assert push.message.message_id != message_id
    assert push.message.trace == make_trace("test1", message_id)


def test_a_message_that_is_a_dead_letter_makes_no_second_one_so_that_circles_end(world: FakeWorld) -> None:
    world.topic("dead")
    circle = "/topics/dead/subscriptions/g"
    gives_up_to(world, "test1", circle)
    discarded_to(world, "dead")
    world.deliver()

    [letter] = pull(world, group=circle)
    assert said(world, "nack", letter, group=circle) == ["returned"]
    assert pull(world, group=circle) == []
    world.deliver()

    ended = message_view(world.world, "dead", letter["message_id"]).subscribers["g"]
    assert (ended.state, pull(world), world.telemetry.counts["DeadLettersLost"]) == (EntryState.DISCARDED, [], 1)


def letters(world: FakeWorld) -> list[tuple[str, str]]:
    """Publish what was discarded: of which message each letter is, and by whom."""
    world.deliver()
    found = [dict(push.message.properties) for push in world.pusher.pushes]
    return sorted((each["dead_letter_of"], each["dead_letter_from"]) for each in found)


def test_each_of_two_groups_that_discard_a_message_makes_a_letter(world: FakeWorld) -> None:
    world.topic("dead")
    world.subscribe("watch", topic="dead")
    gives_up_to(world, "dead", OTHER_GROUP)

    message_id = discarded_to(world, "dead")
    said(world, "nack", *pull(world, group=OTHER_GROUP), group=OTHER_GROUP)
    assert pull(world, group=OTHER_GROUP) == []

    assert letters(world) == [(message_id, "test1/g"), (message_id, "test1/h")]


def test_what_a_group_discards_says_what_came_of_its_own_pulls(world: FakeWorld) -> None:
    world.group("g", max_retries=0)
    world.group("h", max_retries=0)
    [message_id] = world.first_round("a")
    said(world, "nack", *pull(world))
    pull(world, group=OTHER_GROUP, visibility_timeout_seconds=30)
    world.clock.sleep(30)
    assert (pull(world), pull(world, group=OTHER_GROUP)) == ([], [])

    found = message_view(world.world, "test1", message_id).subscribers
    assert [found[name].last_outcome for name in "gh"] == ["returned", "not acknowledged in time"]


def test_what_two_members_end_at_once_is_told_of_once(world: FakeWorld) -> None:
    [message_id] = world.first_round("a")
    row = row_of(world, message_id)
    for _ in range(2):
        end_after_pull(world.world, get_subscription(world.world, "test1", "g"), row, EntryState.EXPIRED, 0)

    assert world.telemetry.ends == [("a", "g", EntryState.EXPIRED)]


def away(row: MessageRow) -> Put:
    raise UnavailableError("the table is away")


def test_a_letter_that_could_not_be_published_is_published_at_the_next_pull(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.topic("dead")
    world.subscribe("watch", topic="dead")
    gives_up_to(world, "dead")
    [message_id] = world.first_round("a")
    said(world, "nack", *pull(world))

    with monkeypatch.context() as patched:
        patched.setattr("tagcast.delivery.publishing.accepted_put", away)
        status, problem = asked(world, "pull")
    assert (status, problem["code"]) == (503, "unavailable")
    assert entry(world, message_id) == ("blocked", 1, "returned")
    world.clock.sleep(60)

    assert pull(world) == []
    assert entry(world, message_id)[0] == "discarded"
    assert letters(world) == [(message_id, "test1/g")]


def test_a_dead_letter_that_no_topic_takes_is_counted(world: FakeWorld) -> None:
    discarded_to(world, "absent")

    assert world.telemetry.counts["DeadLettersLost"] == 1
    assert world.telemetry.faults == [], "a setting of a topic's owner raises no alarm of the deployment's"


def test_what_nobody_pulled_in_its_life_expires_at_the_next_pull(world: FakeWorld) -> None:
    [message_id] = world.first_round("a")
    world.clock.sleep(86_400)
    assert entry(world, message_id) == ("expired", 0, None)

    assert pull(world) == []
    assert entry(world, message_id) == ("expired", 0, None)
    assert not row_of(world, message_id).map.pending


def test_what_nobody_ever_pulls_is_ended_by_the_search(world: FakeWorld) -> None:
    world.group("g", max_retries=5)
    ids = world.first_round("a", "b")
    said(world, "nack", pull(world)[0])
    world.clock.sleep(86_400 + 3_700)
    world.sweep()

    assert [entry(world, each) for each in ids] == [("expired", 1, "returned"), ("expired", 0, None)]
    assert not row_of(world, ids[0]).map.pending


def test_an_acknowledgement_after_the_life_still_counts(world: FakeWorld) -> None:
    [message_id] = world.first_round("a")
    world.clock.sleep(86_400 - 10)
    [message] = pull(world, visibility_timeout_seconds=60)
    world.clock.sleep(30)

    assert said(world, "ack", message) == ["acknowledged"]
    assert entry(world, message_id) == ("delivered", 1, "acknowledged")


def stale_due_row(world: FakeWorld, message_id: str) -> Subscription:
    """Let a repeated batch have put into the backlog of the paused group what lies in its queue already."""
    lanes.pause(world.world, "test1", "g")
    group = get_subscription(world.world, "test1", "g")
    expires_at = row_of(world, message_id).message.expires_at
    due = PendingDelivery(group.subscription_id, position(1, 0), message_id, 0, expires_at)
    world.store.transact((due_put(due), join(lane(world, "g"), [message_id], expires_at)))
    return group


def test_a_skip_takes_a_stale_due_row_and_leaves_what_lies_in_the_queue(world: FakeWorld) -> None:
    [message_id] = world.first_round("a")
    group = stale_due_row(world, message_id)

    lanes.skip_head(world.world, "test1", "g", "nobody wants it")

    assert stored.dues(world.store, group.subscription_id) == []
    lanes.resume(world.world, "test1", "g")
    assert said(world, "ack", *pull(world)) == ["acknowledged"]
    assert entry(world, message_id) == ("delivered", 1, "acknowledged")


def test_an_expiry_takes_a_stale_due_row_and_leaves_what_a_member_has(world: FakeWorld) -> None:
    [message_id] = world.first_round("a")
    world.clock.sleep(86_400 - 60)
    messages = pull(world, visibility_timeout_seconds=300)
    group = stale_due_row(world, message_id)
    world.clock.sleep(90)

    world.sweep()

    assert stored.dues(world.store, group.subscription_id) == []
    assert said(world, "ack", *messages) == ["acknowledged"]
    assert entry(world, message_id) == ("delivered", 1, "acknowledged")


@pytest.mark.parametrize("is_told", [False, True])
def test_a_body_that_is_kept_goes_after_its_life_although_nobody_closed_the_first_round(
    world: FakeWorld, is_told: bool
) -> None:
    """If the relay was not told of the end either, the search has the batch sent again, which closes the round."""
    world.topic(keep=Keep.LIFE)
    group = world.group("g")
    [message_id] = world.publish("a")
    [entry] = world.queue.entries
    world.group_queues.send(GroupQueue.of(group), [entry])  # And whoever handed it over died before it said so.
    assert said(world, "ack", *pull(world)) == ["acknowledged"]
    world.queue.entries.clear()
    if is_told:
        world.relay_ends()
    row = row_of(world, message_id)
    assert row.is_pending == (not is_told)
    assert (None in row.rounds.values(), row.map.pending, row.has_body) == (not is_told, frozenset(), True)

    world.clock.sleep(86_400 + 3_601)
    world.sweep()
    assert [entry.message_id for entry in world.queue.entries] == ([] if is_told else [message_id])
    world.deliver()
    world.clock.sleep(7 * 3_600)
    world.sweep()

    assert not row_of(world, message_id).has_body
    assert world.queue.entries == []


def test_a_pull_waits_for_its_first_message_only(world: FakeWorld) -> None:
    begun = world.clock.instant
    assert pull(world, wait_seconds=20) == []
    assert world.clock.instant - begun == 20_000

    world.first_round("a")
    begun = world.clock.instant
    assert bodies(pull(world, wait_seconds=20)) == ["a"]
    assert world.clock.instant == begun


def test_what_a_throttled_table_does_not_note_is_not_handed_over_again(world: FakeWorld) -> None:
    lanes.pause(world.world, "test1", "g")
    world.first_round("a", "b")
    lanes.resume(world.world, "test1", "g")
    tries = iter((True, True, True))
    with throttled(world.store, lambda key: key.sk.startswith("ENQUEUED#") and next(tries, False)) as refused:
        world.run_workflows(world.clock.instant + MINUTE)

    assert len(refused) == 3
    assert world.group_queues.sent == 2


def test_a_paused_group_gives_nothing_and_keeps_its_order(world: FakeWorld) -> None:
    world.first_round("a")
    lanes.pause(world.world, "test1", "g")
    world.first_round("b")
    assert pull(world, wait_seconds=20) == []
    assert view(world).backlog == 1

    lanes.resume(world.world, "test1", "g")
    world.run_workflows(world.clock.instant + MINUTE)

    assert view(world).state is LaneState.ACTIVE
    assert bodies(pull(world)) == ["a", "b"]


def test_a_group_that_is_removed_during_a_pull_gives_none_of_what_its_queue_still_holds(
    world: FakeWorld, before: Before
) -> None:
    world.first_round("a")
    before.next(stored, "lane", lambda: subscriptions.delete_subscription(world.world, "test1", "g"))

    assert pull(world) == []
    [held] = next(iter(world.group_queues.queues.values()))
    assert held.times == 0


def test_what_the_queue_does_not_take_waits_in_the_backlog_and_counts_no_attempt(world: FakeWorld) -> None:
    world.group_queues.broken = True
    ids = world.first_round("a", "b", "c")
    waiting = view(world)
    assert (waiting.state, waiting.backlog) == (LaneState.BLOCKED, 3)
    assert waiting.head is not None
    assert (waiting.head.attempts, waiting.head.last_outcome) == (0, "the group's queue did not take it")

    world.run_workflows(world.clock.instant + MINUTE)
    world.group_queues.broken = False
    lanes.retry_now(world.world, "test1", "g")
    world.run_workflows(world.clock.instant + MINUTE)

    assert view(world).state is LaneState.ACTIVE
    assert [entry(world, each)[:2] for each in ids] == [("pending", 0)] * 3
    messages = pull(world)
    assert bodies(messages) == ["a", "b", "c"]
    assert said(world, "ack", *messages) == ["acknowledged"] * 3
    world.relay_ends()
    assert retained_key("test1", ids[0]) not in world.store.rows


class SlowQueues(FakeGroupQueues):
    """Queues that take three seconds for each request."""

    def send(self, queue: GroupQueue, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        self.sleep(3)
        return super().send(queue, entries)


def test_what_is_not_handed_over_in_the_groups_share_of_a_batch_waits_in_its_backlog(world: FakeWorld) -> None:
    known = world.group_queues
    slow = SlowQueues(world.clock.now, world.clock.sleep, known.queues)
    object.__setattr__(world.world, "group_queues", slow)
    ids = world.first_round(*(f"{number}" for number in range(30)))

    [queue] = known.queues
    waiting = stored.dues(world.store, queue.subscription_id)
    assert [(due.message_id, due.attempts) for due in waiting] == [(each, 0) for each in ids[20:]]
    world.run_workflows(world.clock.instant + MINUTE)
    assert [held.entry.message_id for held in known.queues[queue]] == ids


def test_a_batch_that_comes_twice_is_handed_over_once(world: FakeWorld) -> None:
    ids = world.first_round("a", "b")
    world.fan_out("test1", ids)

    assert bodies(pull(world)) == ["a", "b"]


def test_while_the_round_is_open_for_others_nothing_is_handed_over_again(world: FakeWorld) -> None:
    [message_id] = world.first_round("a")
    row = row_of(world, message_id)
    waiting = row.map.matched | {1}
    still_open = replace(row, map=replace(row.map, matched=waiting, pending=waiting, waiting=frozenset({1})))

    this = SubscriptionRound(0, {message_id: still_open}, None)

    assert (this.pushable(), this.remainder()) == ([], [])


def test_what_lies_in_the_queue_already_keeps_nothing_behind_it_from_being_handed_over(world: FakeWorld) -> None:
    [first] = world.first_round("a")
    [second] = world.publish("b")

    world.fan_out("test1", [first, second])

    assert bodies(pull(world)) == ["a", "b"]
    assert not [key for key in world.store.rows if key.pk.startswith(("DUE#", "LANES#"))]


def test_what_lies_twice_in_the_queue_is_pulled_once(world: FakeWorld) -> None:
    world.first_round("a")
    [queue] = world.group_queues.queues
    [held] = world.group_queues.queues[queue]
    world.group_queues.send(queue, [held.entry])

    messages = pull(world)
    assert bodies(messages) == ["a"]
    said(world, "ack", *messages)
    assert world.group_queues.queues[queue] == []


def test_what_comes_again_within_one_pull_stays_in_the_queue_until_it_is_done(world: FakeWorld) -> None:
    world.first_round("slow")
    world.group_queues.sleep = lambda seconds: world.clock.sleep(11)

    [pulled] = pull(world, max_messages=2, visibility_timeout_seconds=10)
    assert pulled["attempt"] == 2
    world.clock.sleep(11)
    [again] = pull(world, max_messages=1)
    assert (again["message_id"], again["attempt"]) == (pulled["message_id"], 3)
    assert said(world, "ack", again) == ["acknowledged"]


def test_what_the_queue_did_not_take_expires_with_its_life_and_not_with_its_next_attempt(world: FakeWorld) -> None:
    world.group_queues.broken = True
    [message_id] = world.publish("a")
    world.clock.sleep(86_400 - 3)
    world.deliver()

    world.run_workflows(world.clock.instant + 3_500)

    assert entry(world, message_id)[0] == "expired"
    assert view(world).state is LaneState.ACTIVE


def test_what_comes_again_within_one_pull_too_often_is_not_given_out(world: FakeWorld) -> None:
    world.group("g", max_retries=0)
    [message_id] = world.first_round("slow")
    world.group_queues.sleep = lambda seconds: world.clock.sleep(11)

    assert pull(world, max_messages=2, visibility_timeout_seconds=10) == []
    assert entry(world, message_id)[:2] == ("discarded", 1)


def test_a_copy_behind_an_acknowledgement_is_dropped(world: FakeWorld) -> None:
    world.first_round("a")
    [queue] = world.group_queues.queues
    [held] = world.group_queues.queues[queue]
    said(world, "ack", *pull(world))
    world.group_queues.send(queue, [held.entry])

    assert pull(world) == []
    assert world.group_queues.queues[queue] == []


def test_an_ordered_group_gives_an_order_to_one_member_at_a_time(world: FakeWorld) -> None:
    world.topic("keys", ordering=Ordering.KEY)
    world.group("o", topic="keys", ordered=True)
    drafts = [Draft(f"{number}".encode(), ordering_key="even" if number % 2 == 0 else "odd") for number in range(12)]
    for draft in drafts:
        publishing.publish(world.world, "keys", [draft])
    world.deliver()

    first, second = (pull(world, group="/topics/keys/subscriptions/o", max_messages=10) for _ in range(2))
    assert (bodies(first), second) == ([f"{number}" for number in range(10)], [])


def test_a_pull_gives_no_more_than_it_was_asked_for_however_often_it_asks_its_queue(world: FakeWorld) -> None:
    texts = [str(number) for number in range(15)]
    world.first_round(*texts)

    assert bodies(pull(world, max_messages=11)) == texts[:11]
    assert bodies(pull(world)) == texts[11:]


def test_a_pull_ends_before_its_answer_is_too_large(world: FakeWorld) -> None:
    world.first_round(*["\x01" * 65_536] * 12)

    messages = pull(world)
    said(world, "ack", *messages)

    assert [each["attempt"] for each in pull(world)] == [1] * (12 - len(messages))
    assert len(messages) == 10


@pytest.mark.parametrize("is_topic_changed", [False, True])
def test_no_pull_asks_for_more_than_its_answer_can_hold(world: FakeWorld, is_topic_changed: bool) -> None:
    topics.put_topic(world.world, "test1", TopicSettings(body_bytes_max=262_144))
    most = {f"p{number:02}": "\x01" * 320 for number in range(50)}
    draft = Draft(b"\x01" * 262_144, properties=most, tags=tuple("\x01" * 63 + f"{n}" for n in range(10)))
    publishing.publish(world.world, "test1", [draft] * 6)
    world.deliver()
    if is_topic_changed:
        world.clock.sleep(3_600)
        topics.put_topic(world.world, "test1", TopicSettings(body_bytes_max=1_024))
        world.clock.sleep(86_400 - 3_600 - 60)

    reply = answered(world.world, "POST", f"{GROUP}/pull", "{}")

    assert len(json.loads(reply["body"])["messages"]) == 3
    assert len(json.dumps(reply)) <= LAMBDA_PAYLOAD_BYTES_MAX


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
def test_a_forged_a_foreign_and_an_older_handle_are_unknown_and_change_nothing(world: FakeWorld, verb: str) -> None:
    world.group("h")
    [message_id] = world.first_round("a")
    [message] = pull(world)
    [foreign] = pull(world, group=OTHER_GROUP)
    handle = message["receipt_handle"]
    forged = {"receipt_handle": handle[:-6] + ("AAAAAA" if handle[-6:] != "AAAAAA" else "BBBBBB")}

    assert said(world, verb, forged, foreign, {"receipt_handle": "naïve"}) == ["unknown"] * 3
    assert entry(world, message_id) == ("pending", 0, None)
    assert said(world, "ack", message) == ["acknowledged"]


def test_acknowledged_twice_is_no_fault(world: FakeWorld) -> None:
    [message_id] = world.first_round("a")
    [message] = pull(world)

    assert said(world, "ack", message, message) == ["acknowledged", "already_acknowledged"]
    assert said(world, "nack", message) == ["already_acknowledged"]
    assert said(world, "extend", message) == ["already_acknowledged"]
    assert entry(world, message_id) == ("delivered", 1, "acknowledged")
    assert world.telemetry.counts[EntryState.DELIVERED] == 1


def test_what_ended_otherwise_leaves_the_queue_when_a_member_acknowledges_it(world: FakeWorld) -> None:
    world.first_round("a", "b")
    message, _ = pull(world, visibility_timeout_seconds=30)
    world.clock.sleep(86_400)
    asyncio.run(expire_messages(world.world, "test1", [(message["message_id"], None)]))

    assert said(world, "ack", message) == ["over"]
    [held] = next(iter(world.group_queues.queues.values()))
    assert held.entry.message_id != message["message_id"]


@pytest.mark.parametrize(
    ("verb", "body", "pointer"),
    [
        ("pull", {"max_messages": 33}, "#/max_messages"),
        ("pull", {"member_id": "a b"}, "#/member_id"),
        ("ack", {"receipt_handles": []}, "#/receipt_handles"),
        ("ack", {}, "#/receipt_handles"),
        ("nack", {"receipt_handles": ["x"], "delay_seconds": -1}, "#/delay_seconds"),
        ("extend", {"receipt_handles": ["x"], "visibility_timeout_seconds": 5}, "#/visibility_timeout_seconds"),
        *(("ack", {"receipt_handles": [each]}, "#/receipt_handles/0") for each in ("", "x" * 3_000, 7, None)),
    ],
)
def test_bad_input_is_named_and_changes_nothing(
    world: FakeWorld, verb: str, body: dict[str, Any], pointer: str
) -> None:
    world.first_round("a")
    before = {key: dict(row) for key, row in world.store.rows.items()}

    status, answer = asked(world, verb, **body)

    assert (status, [each["pointer"] for each in answer["errors"]]) == (422, [pointer])
    assert {key: dict(row) for key, row in world.store.rows.items()} == before
    assert bodies(pull(world)) == ["a"]


def test_only_a_group_is_pulled_from(world: FakeWorld) -> None:
    world.subscribe("pushed")
    for name, status in (("pushed", 409), ("absent", 404)):
        assert asked(world, "pull", f"/topics/test1/subscriptions/{name}")[0] == status


def test_without_an_answer_of_the_queue_a_pull_is_told_to_try_again(world: FakeWorld) -> None:
    world.first_round("a")
    world.group_queues.broken = True

    assert asked(world, "pull")[0] == 503


def test_a_queue_that_fails_after_its_first_messages_costs_these_no_attempt(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.first_round(*map(str, range(15)))
    receive = world.group_queues.receive

    def fails_next(*args: Any, **bounds: Any) -> Any:
        found = receive(*args, **bounds)
        monkeypatch.undo()
        world.group_queues.broken = True
        return found

    monkeypatch.setattr(world.group_queues, "receive", fails_next)

    first = pull(world)
    world.group_queues.broken = False
    second = pull(world)

    assert bodies([*first, *second]) == [str(number) for number in range(15)]
    assert {each["attempt"] for each in (*first, *second)} == {1}
    assert [what for what, _ in world.telemetry.faults] == ["the rest of a pull"]
    world.telemetry.faults.clear()


def test_a_failed_pull_that_cannot_be_noted_keeps_no_message_from_a_member(world: FakeWorld) -> None:
    ids = world.first_round("a", "b")
    pull(world, visibility_timeout_seconds=10)
    world.clock.sleep(10)

    with throttled(world.store, lambda key: key == pulled_key("test1", ids[1], 0)):
        messages = pull(world)
        assert said(world, "nack", *messages) == ["returned"] * 2

    assert bodies(messages) == bodies(pull(world)) == ["a", "b"]


def test_a_message_that_cannot_be_handed_out_keeps_those_before_it_from_no_member(world: FakeWorld) -> None:
    ids = world.first_round("a")
    world.topic(retention_s=60)
    ids += world.first_round("expired")
    world.clock.sleep(60)

    with throttled(world.store, lambda key: key == end_key("test1", ids[1], 0)):
        first = pull(world, visibility_timeout_seconds=10)
        world.clock.sleep(10)
        said(world, "ack", *pull(world, max_messages=1, visibility_timeout_seconds=10))
        world.clock.sleep(10)
        assert asked(world, "pull", visibility_timeout_seconds=10)[0] == 503

    assert (bodies(first), entry(world, ids[0])[0]) == (["a"], "delivered")
    assert [what for what, _ in world.telemetry.faults] == ["the rest of a pull"]
    world.telemetry.faults.clear()
