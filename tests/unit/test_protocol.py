"""The protocol between fan-out, redelivery, relay and sweep, one test per promise.

See docs/protocol.md, The order of writes.
"""

from dataclasses import replace

import pytest
from tagcast.errors import UnavailableError
from tagcast.model import Entry, EntryState, LaneState, Ordering, Outcome, Strategy
from tagcast.operating import lanes, messages
from tagcast.ports import Write
from tagcast.registry import subscriptions, topics
from tagcast.repairing.relay import relay
from tagcast.rows import ordinals
from tagcast.rows.keys import retained_key
from tagcast.rows.message import round_attributes, round_in
from tagcast.rows.state_map import Round
from tagcast.rows.values import row_bytes

from tests.fakes.memory_store import MemoryStore
from tests.fakes.whole_message import whole_message
from tests.fakes.world import FAIL, OK, FakeWorld
from tests.unit.worlds import blocked, entry, failing, lane, lane_if_any, row_of, slow

DECAY = Strategy.EXPONENTIAL_DECAY_RETRY


def due_rows(fake: FakeWorld) -> list[str]:
    return sorted(key.sk.partition("#")[2] for key in fake.store.rows if key.pk.startswith("DUE#"))


def check_invariants(fake: FakeWorld) -> None:
    """Before the relay hears of ends, a message may be kept longer than it is pending; after that it is not."""
    lanes_of_topic = {key.sk for key in fake.store.rows if key.pk.startswith("LANES#")}
    for key in fake.store.rows:
        if key.pk.startswith("DUE#"):
            assert key.pk.removeprefix("DUE#") in lanes_of_topic
    for is_pending, is_in_backlog, kept in kept_of_messages(fake):
        needed = (is_pending, is_pending, is_in_backlog)
        assert [has or not needs for has, needs in zip(kept, needed, strict=True)] == [True] * 3
    fake.relay_ends()
    for is_pending, is_in_backlog, kept in kept_of_messages(fake):
        assert kept == (is_pending, is_pending, is_in_backlog)


def kept_of_messages(fake: FakeWorld) -> list[tuple[bool, bool, tuple[bool, bool, bool]]]:
    """Of each message: is it pending, does a backlog have it; is it kept as pending, with its body, in the list."""
    found = []
    for message_id in [str(row["message_id"]) for key, row in fake.store.rows.items() if key.sk == "MSG"]:
        row = row_of(fake, message_id)
        backlogged = row.map.pending - row.map.waiting - row.map.enqueued
        kept = (row.is_pending, row.has_body, retained_key("test1", message_id) in fake.store.rows)
        found.append((bool(row.map.pending), bool(backlogged), kept))
    return found


def test_invariant_1_a_crash_between_put_and_send_is_healed_by_the_relay(fake: FakeWorld) -> None:
    fake.subscribe("A")
    fake.queue.broken = True
    with pytest.raises(UnavailableError):
        fake.publish("1")
    fake.queue.broken = False
    [message_id] = [row["message_id"] for key, row in fake.store.rows.items() if key.pk.startswith("MSG#")]

    relay(fake.world, [row_of(fake, message_id)])
    fake.deliver()

    assert fake.pusher.received["A"] == ["1"]


def test_the_relay_fails_when_it_can_neither_send_nor_list(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.topic(ordering=Ordering.NONE)
    fake.subscribe("A")
    [message_id] = fake.publish_unqueued("1")
    fake.queue.broken = True

    def unavailable(store: MemoryStore, write: Write) -> None:
        raise ConnectionError

    monkeypatch.setattr(type(fake.store), "write", unavailable)
    with pytest.raises(ConnectionError):
        relay(fake.world, [row_of(fake, message_id)])


def test_what_is_neither_queued_nor_listed_is_found_by_the_search_and_what_is_over_expires(fake: FakeWorld) -> None:
    fake.topic(ordering=Ordering.NONE)
    fake.subscribe("A")
    fake.topic("short", retention_s=60, ordering=Ordering.NONE)
    fake.subscribe("B", topic="short")
    [alive] = fake.publish_unqueued("1")
    [over] = fake.publish_unqueued("2", topic="short")

    assert fake.sweep().sent == 0, "the round of a message that was just accepted is not overdue"
    fake.clock.sleep(6 * 3_600)
    assert fake.sweep().sent == 2
    fake.deliver()

    assert fake.pusher.received == {"A": ["1"]}
    assert entry(fake, alive).state is EntryState.DELIVERED
    row = whole_message(fake.store, "short", over)
    assert row is not None
    assert row.map.entry(0).state is EntryState.EXPIRED
    assert not row.is_pending


def test_invariant_2_the_body_and_the_list_go_with_the_last_entry(fake: FakeWorld) -> None:
    fake.subscribe("B")
    [message_id] = blocked(fake, "1")
    assert row_of(fake, message_id).map.pending_count == 1
    check_invariants(fake)

    fake.pusher.behaviours["A"] = lambda push: OK
    lanes.retry_now(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + 1)

    assert row_of(fake, message_id).map.pending_count == 0
    check_invariants(fake)


def test_invariant_3_terminal_entries_never_change(fake: FakeWorld) -> None:
    fake.subscribe("A")
    [message_id] = fake.first_round("1")
    before = row_of(fake, message_id)

    fake.fail("A")
    fake.fan_out("test1", [message_id])

    assert row_of(fake, message_id) == before
    assert fake.pusher.received["A"] == ["1"]


@pytest.mark.parametrize(("late_ms", "state"), [(-1, EntryState.DELIVERED), (0, EntryState.EXPIRED)])
def test_invariant_7_no_attempt_starts_at_or_after_the_expiry_even_if_ttl_never_runs(
    fake: FakeWorld, late_ms: int, state: EntryState
) -> None:
    fake.subscribe("A", strategy=DECAY)
    [message_id] = fake.publish("1")
    fake.clock.instant = row_of(fake, message_id).message.expires_at + late_ms

    fake.deliver()

    assert entry(fake, message_id).state is state
    assert len(fake.pusher.pushes) == (state is EntryState.DELIVERED)


def test_an_owed_entry_reads_as_expired_from_the_exact_instant_on(fake: FakeWorld) -> None:
    [message_id] = blocked(fake, "1")
    fake.clock.instant = row_of(fake, message_id).message.expires_at

    view = messages.message_view(fake.world, "test1", message_id)

    assert (view.state, view.body, view.subscribers["A"].state) == ("expired", None, EntryState.EXPIRED)
    assert topics.retained_count(fake.world, "test1") == 0


def test_retained_messages_behind_expired_ones_are_counted_once_each(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "RETAINED_MAX", 3)
    fake.world = replace(fake.world, section_max=1)
    failing(fake, "B")
    gone = blocked(fake, *"12345")
    fake.clock.instant = row_of(fake, gone[-1]).message.expires_at
    fake.first_round("live")
    assert topics.retained_count(fake.world, "test1") == 1

    fake.first_round(*"abcdef")
    assert topics.retained_count(fake.world, "test1") == 3


@pytest.mark.parametrize("fails", [False, True])
def test_invariant_8_the_same_batch_again_changes_no_state(fake: FakeWorld, fails: bool) -> None:
    fake.subscribe("A")
    fake.pusher.behaviours["A"] = lambda push: FAIL if fails else OK
    ids = fake.first_round("1", "2", "3")
    before = {message_id: row_of(fake, message_id) for message_id in ids}
    rows = due_rows(fake)

    fake.fan_out("test1", ids)
    fake.fan_out("test1", ids[::-1])

    assert {message_id: row_of(fake, message_id) for message_id in ids} == before
    assert due_rows(fake) == rows
    check_invariants(fake)


def test_invariant_9_a_slow_subscriber_hands_the_rest_to_its_backlog_without_a_failure(fake: FakeWorld) -> None:
    fake.subscribe("A")

    slow(fake, 1.5)
    ids = fake.first_round(*"123456")

    backlog = lanes.backlog(fake.world, "test1", "A", 100, None).items
    assert 0 < len(backlog) < 6
    assert {delivery.attempts for delivery in backlog} == {0}
    assert backlog[0].next_attempt_at is not None
    assert backlog[0].next_attempt_at <= fake.clock.instant
    fake.run_workflows(until=fake.clock.instant + 60_000)
    assert fake.pusher.received["A"] == list("123456")
    assert {row_of(fake, message_id).map.pending_count for message_id in ids} == {0}


def test_unsubscribing_cancels_what_is_owed_and_keeps_the_name_in_receipts(fake: FakeWorld) -> None:
    fake.subscribe("B")
    ids = blocked(fake, "1", "2")

    subscriptions.delete_subscription(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + 60_000)

    assert [entry(fake, message_id).state for message_id in ids] == [EntryState.CANCELLED] * 2
    assert due_rows(fake) == []
    check_invariants(fake)


def test_a_message_in_the_queue_when_its_subscription_goes_is_cancelled(fake: FakeWorld) -> None:
    fake.subscribe("A")
    [message_id] = fake.publish("1")
    subscriptions.delete_subscription(fake.world, "test1", "A")

    fake.deliver()

    assert entry(fake, message_id).state is EntryState.CANCELLED
    assert fake.pusher.pushes == []


def test_a_410_suspends_counts_as_an_attempt_and_stays_owed_until_resumed(fake: FakeWorld) -> None:
    """Also where no retry is left."""
    fake.subscribe("A", max_retries=0)
    fake.pusher.behaviours["A"] = lambda push: Outcome(False, "http 410", gone=True)
    ids = fake.first_round("1", "2")

    assert lane(fake).state is LaneState.SUSPENDED
    assert [(entry(fake, each).state, entry(fake, each).attempts) for each in ids] == [
        (EntryState.BLOCKED, 1),
        (EntryState.BLOCKED, 0),
    ]
    assert fake.workflow.tasks == []
    fake.pusher.behaviours["A"] = lambda push: OK
    lanes.resume(fake.world, "test1", "A")
    fake.run_workflows(until=fake.clock.instant + 60_000)
    assert fake.pusher.received["A"] == ["1", "2"]
    assert entry(fake, ids[0]).attempts == 2


def test_a_paused_lane_makes_no_attempts_and_its_deliveries_expire_by_the_sweep(fake: FakeWorld) -> None:
    fake.subscribe("A")
    lanes.pause(fake.world, "test1", "A")
    [message_id] = fake.first_round("1")
    assert entry(fake, message_id).state is EntryState.BLOCKED
    fake.clock.instant = row_of(fake, message_id).message.expires_at

    assert fake.sweep().expired == 1

    assert row_of(fake, message_id).map.pending_count == 0
    assert due_rows(fake) == []
    assert fake.pusher.pushes == []
    check_invariants(fake)


def test_lost_contact_drains_concurrently_after_its_head_got_through(fake: FakeWorld) -> None:
    blocked(fake, *[str(n) for n in range(30)], strategy=DECAY)
    assert lane(fake).state is LaneState.LOST_CONTACT
    fake.pusher.behaviours["A"] = lambda push: OK

    fake.run_workflows(until=fake.clock.instant + 700_000)

    assert sorted(fake.pusher.received["A"], key=int) == [str(n) for n in range(30)]
    assert lane_if_any(fake) is None


def test_a_workflow_that_was_never_started_is_started_by_the_sweep(fake: FakeWorld) -> None:
    fake.workflow.broken = True
    blocked(fake, "1")
    fake.workflow.broken = False
    fake.pusher.behaviours["A"] = lambda push: OK
    fake.clock.sleep(60)

    assert fake.sweep().restarted == 1
    fake.run_workflows(until=fake.clock.instant + 60_000)

    assert fake.pusher.received["A"] == ["1"]


def test_a_long_lived_execution_hands_over_to_a_new_generation(fake: FakeWorld) -> None:
    blocked(fake, "1")
    [task], fake.workflow.tasks = fake.workflow.tasks, []
    fake.clock.sleep(60)

    answer = fake.redeliver(replace(task, rounds=1_500))

    assert answer.wait_until is None
    [fresh] = fake.workflow.tasks
    assert fresh.generation == lane(fake).generation != task.generation


def test_a_subscription_with_no_retries_discards_and_goes_on_with_the_next(fake: FakeWorld) -> None:
    fake.subscribe("A", max_retries=0)
    fake.pusher.behaviours["A"] = lambda push: FAIL if push.message.draft.body == b"1" else OK
    ids = fake.first_round("1", "2")

    assert entry(fake, ids[0]).state is EntryState.DISCARDED
    assert fake.pusher.received["A"] == ["2"]
    assert lane_if_any(fake) is None


def test_the_map_of_a_thousand_subscribers_takes_at_most_4_kib() -> None:
    done = {ordinal: Entry(EntryState.DELIVERED, 1, 1_000 + ordinal) for ordinal in range(1_000)}

    attributes = {"matched": ordinals.pack(range(1_000)), **round_attributes(Round.of(1_000, done), 900, "")}

    assert row_bytes(attributes) <= 4096
    known = round_in(attributes, 900, "")
    assert known is not None
    assert known.entries()[7].last_attempt_at == 1_007
