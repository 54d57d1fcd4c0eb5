"""A message that some receive in order and others do not: two entries of the queue, one row, a round of each."""

import pytest
from tagcast.delivery import fan_out
from tagcast.model import EntryState, Strategy
from tagcast.operating.messages import message_view
from tagcast.ports import QueueEntry
from tagcast.queues import Audience

from tests.fakes.world import FakeWorld
from tests.unit.worlds import row_of


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    """A topic in order with a subscription that keeps it, and one that does not."""
    fake.subscribe("kept")
    fake.subscribe("free", strategy=Strategy.EXPONENTIAL_DECAY_RETRY)
    return fake


def deliver_only(fake: FakeWorld, audience: Audience) -> list[QueueEntry]:
    """Let only the entries for *audience* be delivered; return the others, which wait in the queue."""
    others = [entry for entry in fake.queue.entries if entry.audience is not audience]
    fake.queue.entries = [entry for entry in fake.queue.entries if entry.audience is audience]
    fake.deliver()
    fake.queue.entries = list(others)
    return others


def states(fake: FakeWorld, message_id: str) -> dict[str, EntryState]:
    view = message_view(fake.world, "test1", message_id)
    return {name: entry.state for name, entry in view.subscribers.items()}


def test_whoever_keeps_no_order_gets_a_message_while_its_order_waits(fake: FakeWorld) -> None:
    ids = [fake.publish("1")[0], fake.publish("2")[0]]
    groups = [entry.group for entry in fake.queue.entries if entry.audience is Audience.APART]

    waiting = deliver_only(fake, Audience.APART)

    assert groups == ids  # The queue gives one batch of a group at a time: each is a group of its own.

    assert fake.pusher.received == {"free": ["1", "2"]}
    assert len({entry.group for entry in waiting}) == 1
    assert states(fake, ids[0]) == {"kept": EntryState.PENDING, "free": EntryState.DELIVERED}
    fake.deliver()
    assert fake.pusher.received == {"free": ["1", "2"], "kept": ["1", "2"]}


@pytest.mark.parametrize("first", [Audience.APART, Audience.IN_ORDER])
def test_a_mixed_message_costs_one_write_more_whichever_half_ends_first(fake: FakeWorld, first: Audience) -> None:
    writes = fake.store.writes
    [message_id] = fake.publish("1")

    deliver_only(fake, first)
    half = row_of(fake, message_id)
    fake.deliver()

    after = row_of(fake, message_id)
    [open_half] = [each for each, done in half.rounds.items() if done is None]
    assert (open_half is not first, half.has_body, half.is_pending) == (True, True, True)
    assert (all(after.rounds.values()), after.has_body, after.is_pending) == (True, False, False)
    assert fake.store.writes - writes == 3
    assert [len(done.finishes) for done in after.rounds.values() if done is not None] == [1, 1]


def test_a_half_that_is_over_stays_in_its_lane_when_the_lane_has_forgotten_whom_it_named(fake: FakeWorld) -> None:
    fake.fail("kept")
    [message_id] = fake.publish("1")
    [entry] = [entry for entry in fake.queue.entries if entry.audience is Audience.IN_ORDER]
    apart = [each for each in fake.queue.entries if each != entry]
    deliver_only(fake, Audience.IN_ORDER)
    [lane] = [key for key in fake.store.rows if key.pk.startswith("LANES#")]
    fake.store.rows[lane] = {name: value for name, value in fake.store.rows[lane].items() if name != "joined"}
    dues = {key for key in fake.store.rows if key.pk.startswith("DUE#")}

    fake.queue.entries = [entry]
    fake.deliver()

    assert row_of(fake, message_id).map.waiting
    assert {key for key in fake.store.rows if key.pk.startswith("DUE#")} == dues
    fake.queue.entries = apart
    fake.deliver()
    assert not row_of(fake, message_id).map.waiting


def test_a_message_whose_second_half_was_closed_by_a_worker_that_died_is_let_go_by_the_repetition(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.fail("free")
    [message_id] = fake.publish("1")
    [entry] = [entry for entry in fake.queue.entries if entry.audience is Audience.IN_ORDER]
    deliver_only(fake, Audience.APART)
    del fake.pusher.behaviours["free"]
    fake.run_workflows(fake.clock.instant + 60_000)
    fake.queue.entries = [entry]
    with monkeypatch.context() as dying:
        dying.setattr(fan_out, "complete", _die)
        with pytest.raises(ConnectionError):
            fake.deliver()
    before = row_of(fake, message_id)

    fake.queue.entries = [entry]
    fake.deliver()

    assert (before.has_body, bool(before.map.pending)) == (True, False)
    assert not row_of(fake, message_id).has_body


def _die(*_: object) -> None:
    raise ConnectionError


def test_a_change_of_strategies_moves_nobody_from_one_half_to_the_other(fake: FakeWorld) -> None:
    fake.publish("1")
    fake.subscribe("kept", strategy=Strategy.EXPONENTIAL_DECAY_RETRY)
    fake.subscribe("free")

    fake.deliver()

    assert fake.pusher.received == {"free": ["1"], "kept": ["1"]}
