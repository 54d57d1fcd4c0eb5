"""A message that has an order is acknowledged once the queue took it: the order of a topic is the queue's."""

from collections.abc import Sequence

import pytest
from tagcast.delivery.publishing import Idempotency, publish
from tagcast.errors import UnavailableError
from tagcast.model import Draft, Ordering, Strategy
from tagcast.ports import QueueEntry
from tagcast.registry import subscriptions
from tagcast.repairing import search
from tagcast.repairing.relay import relay
from tagcast.rows.claim import Accepted
from tagcast.rows.keys import message_key
from tagcast.rows.message import MESSAGES

from tests.fakes.world import FakeWorld


class Killed(BaseException):
    """The process of the publisher is no more."""


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    fake.subscribe("A")
    return fake


def put(fake: FakeWorld, *bodies: str, key: str | None = None, order: str | None = None) -> tuple[Accepted, ...]:
    drafts = [Draft(body.encode(), ordering_key=order) for body in bodies]
    claims = [] if key is None else [Idempotency(key, "same request").at(place) for place in range(len(drafts))]
    return publish(fake.world, "test1", drafts, claims)


def repaired(fake: FakeWorld, message_id: str) -> None:
    """Let the relay see the message's first record, however late."""
    relay(fake.world, [MESSAGES.value_of(fake.store.rows[message_key("test1", message_id)])])
    fake.deliver()


def stored(fake: FakeWorld) -> list[str]:
    return sorted(row["message_id"] for key, row in fake.store.rows.items() if key.pk.startswith("MSG#"))


def test_a_repetition_queues_what_a_killed_publisher_left_before_it_answers(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(fake.queue, "send", killed)
        with pytest.raises(Killed):
            put(fake, "1", key="k1")

    [first] = put(fake, "1", key="k1")
    put(fake, "2", key="k2")
    fake.deliver()
    repaired(fake, first.message_id)

    assert fake.pusher.received["A"] == ["1", "2"]


def test_what_the_queue_did_not_take_is_not_acknowledged_and_may_be_asked_for_again(fake: FakeWorld) -> None:
    fake.queue.broken = True
    with pytest.raises(UnavailableError) as refused:
        put(fake, "1", key="k1")
    fake.queue.broken = False

    [first] = put(fake, "1", key="k1")
    put(fake, "2")
    fake.deliver()
    repaired(fake, first.message_id)

    assert refused.value.retry_after_s > 0
    assert fake.telemetry.counts["QueueSendsLeftToRelay"] == 1
    assert fake.pusher.received["A"] == ["1", "2"]


def test_what_was_refused_and_never_asked_for_again_still_comes_by_the_relay(fake: FakeWorld) -> None:
    fake.queue.broken = True
    with pytest.raises(UnavailableError):
        put(fake, "1")
    fake.queue.broken = False
    put(fake, "2")
    fake.deliver()

    repaired(fake, stored(fake)[0])

    assert fake.pusher.received["A"] == ["2", "1"]


def test_each_message_of_a_batch_has_a_claim_of_its_own(fake: FakeWorld) -> None:
    answers = put(fake, *"abc", key="k1")

    assert put(fake, *"abc", key="k1") == answers
    assert [answer.message_id for answer in answers] == stored(fake)


def test_a_repetition_asks_the_queue_for_nothing_that_had_its_first_round(fake: FakeWorld) -> None:
    [first] = put(fake, "1", key="k1")
    fake.deliver()
    fake.queue.broken = True

    assert put(fake, "1", key="k1") == (first,)


@pytest.mark.parametrize(
    ("ordering", "order"), [(Ordering.NONE, None), (Ordering.NONE, "k"), (Ordering.KEY, None)], ids=str
)
def test_a_message_without_an_order_is_acknowledged_after_the_put(
    fake: FakeWorld, ordering: Ordering, order: str | None
) -> None:
    fake.topic(ordering=ordering)
    fake.queue.broken = True

    [accepted] = put(fake, "1", order=order)

    fake.queue.broken = False
    repaired(fake, accepted.message_id)
    assert fake.pusher.received["A"] == ["1"]


def test_a_key_gives_its_message_an_order(fake: FakeWorld) -> None:
    fake.topic(ordering=Ordering.KEY)
    fake.queue.broken = True

    with pytest.raises(UnavailableError):
        put(fake, "1", order="k")


@pytest.fixture
def mixed(fake: FakeWorld) -> FakeWorld:
    """A topic in order with a subscription that keeps it, and one that does not."""
    subscriptions.delete_subscription(fake.world, "test1", "A")
    fake.subscribe("kept", "kept")
    fake.subscribe("free", "free", strategy=Strategy.EXPONENTIAL_DECAY_RETRY)
    return fake


def tagged(fake: FakeWorld, *tags: str) -> Accepted:
    [accepted] = publish(fake.world, "test1", [Draft(b"x", tags=tags)])
    return accepted


def test_a_message_has_an_order_only_if_somebody_whom_it_matched_keeps_one(mixed: FakeWorld) -> None:
    free = [tagged(mixed, "free"), tagged(mixed, "free")]
    tagged(mixed, "kept")
    tagged(mixed, "kept", "free")

    groups = [entry.group for entry in mixed.queue.entries]

    assert groups[:2] == [accepted.message_id for accepted in free]
    assert groups[2] == groups[3] not in [accepted.message_id for accepted in free]


def test_what_nobody_receives_in_order_is_acknowledged_without_the_queue(mixed: FakeWorld) -> None:
    mixed.queue.broken = True

    accepted = tagged(mixed, "free")
    with pytest.raises(UnavailableError):
        tagged(mixed, "kept", "free")

    mixed.queue.broken = False
    repaired(mixed, accepted.message_id)
    assert mixed.pusher.received["free"] == ["x"]


@pytest.mark.parametrize("tag", ["free", "kept"])
def test_relay_and_search_send_again_into_the_same_order(mixed: FakeWorld, tag: str) -> None:
    accepted = tagged(mixed, tag)
    [sent] = mixed.queue.entries
    row = mixed.store.rows[message_key("test1", accepted.message_id)]
    mixed.queue.entries.clear()

    relay(mixed.world, [MESSAGES.value_of(row)])
    [by_relay] = mixed.queue.entries
    mixed.queue.entries.clear()
    mixed.clock.sleep(search.OPEN_S + 1)
    mixed.sweep()

    assert [by_relay, *mixed.queue.entries] == [sent, sent]


def test_a_row_of_the_release_before_has_the_order_of_its_topic(mixed: FakeWorld) -> None:
    accepted = tagged(mixed, "free")
    tagged(mixed, "kept")
    in_order = mixed.queue.entries[-1].group
    row = mixed.store.rows[message_key("test1", accepted.message_id)]
    mixed.queue.entries.clear()

    relay(mixed.world, [MESSAGES.value_of({name: row[name] for name in row if name != "unordered"})])

    assert mixed.queue.entries == [QueueEntry("test1", accepted.message_id, in_order)]


def test_nobody_waits_for_a_queue_that_is_not_needed(fake: FakeWorld) -> None:
    fake.topic("empty")
    fake.queue.broken = True

    [accepted] = publish(fake.world, "empty", [Draft(b"1")])

    assert accepted.matched == 0
