"""Shadows: a candidate filter is counted beside the active one, delivers nothing, and can take its place."""

from collections.abc import Mapping

import pytest
from tagcast.delivery import publishing
from tagcast.delivery.publishing import Idempotency
from tagcast.errors import ConflictError, InvalidFilterError, NotFoundError, PreconditionFailedError
from tagcast.model import Draft
from tagcast.ports import Table
from tagcast.registry import shadows, subscriptions
from tagcast.registry.directory import directory_of
from tagcast.registry.shadowing import OBSERVED_WITHIN_S
from tagcast.registry.shadows import ShadowReport
from tagcast.rows.shadow import Comparison, Shadow

from tests.fakes.raced_store import before_the_next_transaction, throttled
from tests.fakes.world import FakeWorld

APPLE, PEAR = ({"kind": "tags", "tags": [tag]} for tag in ("apple", "pear"))


@pytest.fixture
def fake(fake: FakeWorld) -> FakeWorld:
    fake.subscribe("A", "apple")
    return fake


def shadow(fake: FakeWorld, filter: Mapping[str, object] | None = PEAR, name: str = "A") -> Shadow:
    return shadows.put_shadow(fake.world, "test1", name, filter)[0].shadow


def report(fake: FakeWorld, name: str = "A") -> ShadowReport:
    return shadows.get_shadow(fake.world, "test1", name)


def seen(fake: FakeWorld) -> dict[str, int]:
    return {verdict.value: count for verdict, count in report(fake).counts.items() if count}


def test_counts_tell_all_four_ways_and_samples_name_the_differences(fake: FakeWorld) -> None:
    shadow(fake)
    [only_active] = fake.publish("1", tags=["apple"])
    [only_shadow] = fake.publish("2", tags=["pear"])
    fake.publish("3", tags=["apple", "pear"])
    fake.publish("4", "5", tags=["plum"])

    assert seen(fake) == {"both": 1, "only_active": 1, "only_shadow": 1, "neither": 2}
    assert report(fake).samples == ((only_shadow, Comparison.ONLY_SHADOW), (only_active, Comparison.ONLY_ACTIVE))


def test_a_shadow_sends_nothing_and_keeps_nothing_back(fake: FakeWorld) -> None:
    shadow(fake)
    fake.publish("active", tags=["apple"])
    fake.first_round("candidate", tags=["pear"])

    assert fake.pusher.received["A"] == ["active"]


def test_without_a_shadow_publishing_costs_one_write_and_with_one_a_publish_call_costs_one_more(
    fake: FakeWorld,
) -> None:
    fake.subscribe("B", topic="test1")
    before = fake.store.writes
    fake.publish("1", "2", tags=["plum"])
    assert fake.store.writes - before == 2

    shadow(fake)
    before = fake.store.writes
    fake.publish("3", "4", tags=["plum"])
    assert fake.store.writes - before == 3


def test_a_failing_shadow_is_counted_and_never_a_match(fake: FakeWorld) -> None:
    shadow(fake, {"kind": "sql92", "expression": "price > 1", "dialect": "rocketmq"})
    draft = Draft(b"1", tags=("apple",), properties={"price": "many"})
    publishing.publish(fake.world, "test1", [draft])
    fake.deliver()

    assert seen(fake) == {"errors": 1}
    assert report(fake).samples == ()
    assert fake.pusher.received["A"] == ["1"]


def test_a_shadow_that_does_not_know_is_no_match(fake: FakeWorld) -> None:
    shadow(fake, {"kind": "sql92", "expression": "price > 5"})

    fake.publish("1", tags=["apple"])
    fake.publish("2", tags=["pear"])

    assert seen(fake) == {"only_active": 1, "neither": 1}


def test_samples_stay_at_most_a_hundred_and_go_by_themselves(fake: FakeWorld) -> None:
    shadow(fake)
    for number in range(150):
        fake.publish(f"a{number}", tags=["apple"])
        fake.publish(f"p{number}", tags=["pear"])

    samples = report(fake).samples
    assert 60 <= len(samples) <= 100
    assert {way for _, way in samples} == {Comparison.ONLY_ACTIVE, Comparison.ONLY_SHADOW}
    assert all("ttl" in row for key, row in fake.store.rows.items() if key.pk.startswith("SHADOW#"))


def test_a_store_that_fails_the_counts_fails_no_publish(fake: FakeWorld) -> None:
    shadow(fake)

    with throttled(fake.store, lambda key: key.sk.startswith("COUNTS#")) as refused:
        fake.first_round("1", tags=["apple"])

    assert refused
    assert fake.pusher.received["A"] == ["1"]
    assert fake.telemetry.counts["ShadowCountsLost"] == 1
    assert seen(fake) == {}


def test_shadows_that_take_long_hold_up_no_publish(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    shadow(fake)
    seconds = iter(range(1_000))
    monkeypatch.setattr(type(fake.clock), "monotonic", lambda clock: next(seconds) * OBSERVED_WITHIN_S / 5)
    drafts = [Draft(b"1", tags=("apple",)) for _ in range(100)]
    assert len(publishing.publish(fake.world, "test1", drafts)) == 100
    assert next(seconds) < 20
    assert fake.telemetry.counts["ShadowCountsLost"] == 1


def test_a_change_of_another_subscription_compiles_no_shadow_again(fake: FakeWorld) -> None:
    shadow(fake)
    [before] = directory_of(fake.world, "test1").shadows
    fake.subscribe("B", "pear")
    assert directory_of(fake.world, "test1").shadows[0] is before
    fake.subscribe("A", "pear")
    assert directory_of(fake.world, "test1").shadows[0] != before


def test_a_repeated_request_is_counted_once(fake: FakeWorld) -> None:
    shadow(fake)
    for _ in range(2):
        draft = Draft(b"1", tags=("apple",))
        publishing.publish(fake.world, "test1", [draft], [Idempotency("k", "f")])

    assert seen(fake) == {"only_active": 1}


def test_the_same_filter_again_keeps_the_counts_and_another_one_begins_anew(fake: FakeWorld) -> None:
    first = shadow(fake)
    fake.publish("1", tags=["apple"])
    again, is_new = shadows.put_shadow(fake.world, "test1", "A", PEAR)
    assert (again.shadow, is_new) == (first, False)
    assert seen(fake) == {"only_active": 1}

    second = shadow(fake, None)
    assert second.shadow_version > first.shadow_version
    assert seen(fake) == {}
    third = shadow(fake)
    assert third.shadow_version > second.shadow_version
    assert seen(fake) == {}
    assert report(fake).samples == ()


def test_a_boolean_replaces_the_number_that_python_takes_for_it(fake: FakeWorld) -> None:
    fake.subscribe("A")
    for wanted in (1, True):
        pattern = {"kind": "event_pattern", "pattern": {"paid": [wanted]}}
        report, _ = shadows.put_shadow(fake.world, "test1", "A", pattern)
        assert str({"paid": [wanted]}) in str(report.shadow.filter)


def test_a_change_of_the_active_filter_begins_new_counts(fake: FakeWorld) -> None:
    shadow(fake)
    fake.publish("1", tags=["apple"])
    fake.subscribe("A", "pear")
    assert seen(fake) == {}

    fake.publish("2", tags=["pear"])
    assert seen(fake) == {"both": 1}
    assert report(fake).active_version == 2


def test_promotion_makes_exactly_that_filter_the_next_version_and_ends_the_shadow(fake: FakeWorld) -> None:
    version = shadow(fake).shadow_version
    promoted = shadows.promote_shadow(fake.world, "test1", "A", version)

    assert (promoted.version, promoted.settings.filter) == (2, PEAR)
    assert subscriptions.get_subscription(fake.world, "test1", "A") == promoted
    assert [kept.filter for kept in subscriptions.filter_versions(fake.world, "test1", "A", 9, None).items] == [
        PEAR,
        APPLE,
    ]
    with pytest.raises(NotFoundError):
        report(fake)
    fake.publish("old", tags=["apple"])
    fake.first_round("new", tags=["pear"])
    assert fake.pusher.received["A"] == ["new"]
    assert not any(key.sk.startswith("COUNTS#") for key in fake.store.rows)


def test_promotion_of_another_shadow_than_the_present_one_changes_nothing(fake: FakeWorld) -> None:
    stale = shadow(fake).shadow_version
    shadow(fake, None)

    with pytest.raises(PreconditionFailedError):
        shadows.promote_shadow(fake.world, "test1", "A", stale)

    assert subscriptions.get_subscription(fake.world, "test1", "A").version == 1
    assert report(fake).shadow.filter is None


def test_a_shadow_replaced_while_it_is_promoted_is_not_promoted(fake: FakeWorld) -> None:
    version = shadow(fake).shadow_version

    before_the_next_transaction(fake.store, lambda: shadow(fake, None))

    with pytest.raises(PreconditionFailedError):
        shadows.promote_shadow(fake.world, "test1", "A", version)

    assert subscriptions.get_subscription(fake.world, "test1", "A").settings.filter == APPLE


def test_an_ended_shadow_is_gone_and_counts_no_more(fake: FakeWorld) -> None:
    shadow(fake)
    shadows.delete_shadow(fake.world, "test1", "A")
    before = fake.store.writes
    fake.publish("1", tags=["apple"])

    assert fake.store.writes - before == 1
    for act in (shadows.get_shadow, shadows.delete_shadow, shadows.promote_shadow):
        with pytest.raises(NotFoundError):
            act(fake.world, "test1", "A")


def test_a_shadow_goes_with_its_subscription(fake: FakeWorld) -> None:
    shadow(fake)
    subscriptions.delete_subscription(fake.world, "test1", "A")
    assert fake.store.query(Table.REGISTRY, "TOPIC#test1", sk_from="SHADOW#", sk_to="SHADOW$") == []

    fake.subscribe("A", "apple")
    with pytest.raises(NotFoundError):
        report(fake)


def test_what_cannot_be_a_shadow_is_refused(fake: FakeWorld) -> None:
    with pytest.raises(NotFoundError):
        shadow(fake, name="nobody")
    with pytest.raises(InvalidFilterError):
        shadow(fake, {"kind": "tags", "tags": [""]})
    with pytest.raises(InvalidFilterError, match="function"):
        shadow(fake, {"kind": "function", "function": "f"})


def test_a_topic_has_at_most_ten_shadows(fake: FakeWorld) -> None:
    for number in range(11):
        fake.subscribe(f"S{number}")
    for number in range(10):
        shadow(fake, name=f"S{number}")
    with pytest.raises(ConflictError):
        shadow(fake, name="S10")
    shadow(fake, APPLE, name="S9")
