"""An Idempotency-Key publishes one request once while its messages live, even if requests are concurrent."""

from dataclasses import replace

import pytest
from tagcast.delivery.publishing import Idempotency, publish
from tagcast.errors import ConflictError
from tagcast.model import Draft
from tagcast.ports import Key, Table
from tagcast.registry.directory import read_topic
from tagcast.registry.subscriptions import delete_subscription
from tagcast.registry.topics import delete_topic
from tagcast.rows.claim import Accepted

from tests.fakes.raced_store import RacedStore, watch_reads
from tests.fakes.world import FakeWorld

NOW = 1_800_000_000_000


@pytest.fixture
def store() -> RacedStore:
    return RacedStore()


@pytest.fixture
def fake(store: RacedStore) -> FakeWorld:
    fake = FakeWorld(store=store)
    fake.topic(retention_s=3_600)
    fake.subscribe("A")
    return fake


def asked(fake: FakeWorld, *bodies: bytes, fingerprint: str = "f") -> tuple[Accepted, ...]:
    drafts = [Draft(body) for body in bodies]
    return publish(
        fake.world, "test1", drafts, [Idempotency("key", fingerprint).at(place) for place in range(len(drafts))]
    )


def claim_of(fake: FakeWorld) -> Key:
    topic_id = read_topic(fake.world, "test1").topic_id
    return Key(Table.MESSAGES, f"IDEM#{topic_id}#key#0", "IDEM")


def stored(fake: FakeWorld) -> int:
    return sum(key.pk.startswith("MSG#") for key in fake.store.rows)


@pytest.mark.parametrize(("time_scale", "life_s"), [(1.0, 3_600), (60.0, 60)])
def test_a_claim_is_stored_with_the_life_of_its_message(fake: FakeWorld, time_scale: float, life_s: int) -> None:
    fake.world = replace(fake.world, time_scale=time_scale)
    [accepted] = asked(fake, b"1")
    assert accepted.expires_at - accepted.accepted_at == 1_000 * life_s

    claim = claim_of(fake)
    assert fake.store.rows[claim] == {
        "pk": claim.pk,
        "sk": claim.sk,
        "fingerprint": "f",
        "message_id": accepted.message_id,
        "accepted_at": NOW,
        "expires_at": NOW + 1_000 * life_s,
        "matched": 1,
        "ttl": NOW // 1000 + life_s + 1,
    }


def test_a_key_is_looked_up_only_when_it_was_used_before(fake: FakeWorld) -> None:
    read = watch_reads(fake.store)
    asked(fake, b"1")
    assert claim_of(fake) not in read

    asked(fake, b"1")
    assert read.count(claim_of(fake)) == 1


def test_while_its_message_lives_the_answer_is_the_first_one_in_full(fake: FakeWorld) -> None:
    first = asked(fake, b"1", b"2")
    fake.clock.sleep(3_599.999)

    again = asked(fake, b"1", b"2")

    assert again == first
    assert ([each.is_replay for each in first], [each.is_replay for each in again]) == ([False] * 2, [True] * 2)
    assert stored(fake) == 2

    for key in [key for key in fake.store.rows if key.pk.startswith("MSG#")]:
        del fake.store.rows[key]
    assert asked(fake, b"1", b"2") == first
    assert stored(fake) == 0


def test_what_was_delivered_is_not_published_again_under_its_key(fake: FakeWorld) -> None:
    [first] = asked(fake, b"1")
    fake.deliver()
    fake.clock.sleep(3_000)

    assert asked(fake, b"1") == (first,)
    fake.deliver()

    assert [push.message.message_id for push in fake.pusher.pushes] == [first.message_id]


def test_a_batch_whose_key_is_of_another_request_stores_none_of_its_messages(fake: FakeWorld) -> None:
    publish(fake.world, "test1", [Draft(b"2")], [Idempotency("key", "with an invalid item").at(1)])

    with pytest.raises(ConflictError):
        asked(fake, b"1", b"2")

    assert stored(fake) == 1


def test_after_the_life_of_its_message_the_key_is_new(fake: FakeWorld) -> None:
    [first] = asked(fake, b"1")
    fake.clock.sleep(3_600)

    [second] = asked(fake, b"1")

    assert second.message_id != first.message_id
    assert stored(fake) == 2
    assert asked(fake, b"1") == (second,)


def test_a_key_that_was_used_for_another_request_is_refused_until_it_is_over(fake: FakeWorld) -> None:
    asked(fake, b"1")
    fake.clock.sleep(3_500)
    with pytest.raises(ConflictError, match=r"is remembered until 2027-01-15T09:00:00\.000Z"):
        asked(fake, b"2", fingerprint="other")
    assert stored(fake) == 1

    fake.clock.sleep(100)

    assert len(asked(fake, b"2", fingerprint="other")) == 1


@pytest.mark.parametrize("tries", [1, 2])
@pytest.mark.parametrize("earlier_s", [None, 3_600])
def test_two_requests_at_once_make_one_message(
    fake: FakeWorld, store: RacedStore, earlier_s: int | None, tries: int
) -> None:
    if earlier_s is not None:
        asked(fake, b"0")
        fake.clock.sleep(earlier_s)
    before = stored(fake)
    won: list[Accepted] = []

    def win() -> None:
        won.extend(asked(fake, b"1"))

    # Who finds a claim that ran out tries again with what it read: then somebody may be faster once more.
    store.once_before("IDEM#", win if tries == 1 else lambda: store.once_before("IDEM#", win))
    mine = asked(fake, b"1")

    assert mine == (tuple(won) or asked(fake, b"1"))
    assert stored(fake) == before + 1


def test_a_topic_that_is_created_again_knows_no_key_of_the_one_before(fake: FakeWorld) -> None:
    [before] = asked(fake, b"1")
    delete_subscription(fake.world, "test1", "A")
    delete_topic(fake.world, "test1")
    fake.topic(retention_s=3_600)
    fake.subscribe("B")

    [after] = asked(fake, b"1")

    assert (after.is_replay, after.message_id == before.message_id, after.matched) == (False, False, 1)
