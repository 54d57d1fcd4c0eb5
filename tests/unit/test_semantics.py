"""What docs/semantics.md promises besides what the tests of single modules hold."""

import pytest
from tagcast.errors import ConflictError
from tagcast.model import EntryState, Ordering, Outcome, Push, TopicSettings
from tagcast.operating import lanes
from tagcast.operating.explaining import explain
from tagcast.operating.messages import message_view
from tagcast.registry import subscriptions, topics
from tagcast.registry.directory import read_topic

from tests.fakes.world import FAIL, OK, FakeWorld
from tests.unit.worlds import blocked, entry


def put_topic(fake: FakeWorld, ordering: Ordering) -> None:
    topics.put_topic(fake.world, "test1", TopicSettings(ordering=ordering))


def test_what_matches_nobody_is_a_receipt_without_a_body_and_is_not_queued(fake: FakeWorld) -> None:
    fake.subscribe("A", "apple")

    [message_id] = fake.publish("1", tags=["pear"])

    view = message_view(fake.world, "test1", message_id)
    assert (view.state, view.body, dict(view.subscribers)) == ("unmatched", None, {})
    assert not any("body" in row for row in fake.store.rows.values())
    assert fake.queue.entries == []


def test_a_topic_with_subscriptions_stays(fake: FakeWorld) -> None:
    fake.subscribe("A")

    with pytest.raises(ConflictError):
        topics.delete_topic(fake.world, "test1")

    subscriptions.delete_subscription(fake.world, "test1", "A")
    topics.delete_topic(fake.world, "test1")


def test_the_ordering_stays_while_anything_is_retained_also_behind_what_is_over(fake: FakeWorld) -> None:
    fake.subscribe("A")
    fake.fail("A")
    for body in ("over", "alive"):
        fake.first_round(body)
        fake.clock.sleep(43_200)

    with pytest.raises(ConflictError):
        put_topic(fake, Ordering.NONE)

    fake.clock.sleep(43_200)
    put_topic(fake, Ordering.NONE)
    assert read_topic(fake.world, "test1").settings.ordering is Ordering.NONE


def test_the_ordering_stays_while_a_message_waits_for_an_ordered_group(fake: FakeWorld) -> None:
    fake.group("g", ordered=True)
    fake.first_round("1")

    with pytest.raises(ConflictError):
        put_topic(fake, Ordering.KEY)

    subscriptions.delete_subscription(fake.world, "test1", "g")
    put_topic(fake, Ordering.KEY)


@pytest.mark.parametrize(
    ("before", "after", "during", "attempts"), [(1, 5, 1, 6), (5, 1, 2, 3), (2, 2, 1, 3), (0, 5, 1, 1), (1, 5, 2, 2)]
)
def test_retries_that_are_changed_during_an_attempt_count_from_the_next_one(
    fake: FakeWorld, before: int, after: int, during: int, attempts: int
) -> None:
    def change_and_fail(push: Push) -> Outcome:
        if push.attempt == during:
            fake.subscribe("A", max_retries=after)
        return FAIL

    fake.subscribe("A", max_retries=before)
    fake.pusher.behaviours["A"] = change_and_fail
    [message_id] = fake.first_round("1")
    fake.run_workflows(until=fake.clock.instant + 3_600_000)

    ended = entry(fake, message_id)
    assert (ended.state, ended.attempts, len(fake.pusher.pushes)) == (EntryState.DISCARDED, attempts, attempts)


def test_a_lane_that_wakes_at_the_expiry_pushes_nothing(fake: FakeWorld) -> None:
    [message_id] = blocked(fake, "1")
    lanes.pause(fake.world, "test1", "A")
    fake.pusher.behaviours["A"] = lambda push: OK
    fake.clock.instant = message_view(fake.world, "test1", message_id).message.expires_at

    lanes.resume(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + 60_000)

    ended = entry(fake, message_id)
    assert (ended.state, ended.attempts, fake.pusher.received["A"]) == (EntryState.EXPIRED, 1, [])


def test_a_subscription_that_was_made_later_gets_nothing_older_and_is_told_so(fake: FakeWorld) -> None:
    [older] = fake.publish("older")
    fake.subscribe("A")
    [newer] = fake.first_round("newer")

    assert fake.pusher.received["A"] == ["newer"]
    reason = explain(fake.world, "test1", older, "A")["reason"]
    assert reason == "the subscription was created after the message was accepted"
    assert explain(fake.world, "test1", newer, "A")["received"] is True


def test_a_filter_that_changes_later_touches_no_accepted_message(fake: FakeWorld) -> None:
    fake.subscribe("A", "apple")
    fake.publish("apple", tags=["apple"])
    fake.publish("pear", tags=["pear"])
    fake.subscribe("A", "pear")

    fake.deliver()

    assert fake.pusher.received["A"] == ["apple"]
