"""Subscriptions and the history of their filters, as they are stored, counted, listed and forgotten."""

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest
from tagcast.delivery.lease import Task
from tagcast.errors import ConflictError, NotFoundError, PreconditionFailedError
from tagcast.model import (
    ContentFormat,
    Endpoint,
    LaneState,
    Protocol,
    RetryPolicy,
    Strategy,
    Subscription,
    SubscriptionSettings,
)
from tagcast.ports import Table
from tagcast.registry import filter_history, shadows, subscribing, subscriptions
from tagcast.registry.filter_history import VERSIONS_KEPT
from tagcast.registry.subscribing import SUBSCRIPTIONS_MAX
from tagcast.registry.subscriptions import change_filter
from tagcast.rows.keys import lane_key, name_key, shadow_key, subscription_key, topic_key, version_key
from tagcast.rows.lane import LANES
from tagcast.rows.message import TOMBSTONE_S
from tagcast.rows.subscription import FilterVersion

from tests.fakes.raced_store import throttled
from tests.fakes.world import FakeWorld

NOW = 1_800_000_000_000
APPLE, PEAR = ({"kind": "tags", "tags": [tag]} for tag in ("apple", "pear"))
SETTINGS = SubscriptionSettings(
    endpoint=Endpoint(Protocol.HTTPS, "https://a.test/"),
    filter=APPLE,
    retry=RetryPolicy(Strategy.EXPONENTIAL_DECAY_RETRY, 9, 7, 64),
    timeout_s=11,
    content_format=ContentFormat.SIMPLIFIED,
    secret=None,
)


def put(
    fake: FakeWorld, name: str = "A", settings: SubscriptionSettings = SETTINGS, if_match: int | None = None
) -> tuple[Subscription, bool]:
    return subscriptions.put_subscription(fake.world, "test1", name, settings, if_match)


def counters(fake: FakeWorld) -> tuple[object, ...]:
    row = fake.store.rows[topic_key("test1")]
    return tuple(row[name] for name in ("subscriptions_version", "subscription_count", "next_ordinal"))


def versions(fake: FakeWorld, name: str) -> tuple[FilterVersion, ...]:
    return subscriptions.filter_versions(fake.world, "test1", name, 100, None).items


def topic_id(fake: FakeWorld) -> str:
    return str(fake.store.rows[topic_key("test1")]["topic_id"])


def test_a_new_subscription_has_what_was_asked_for_and_is_counted(fake: FakeWorld) -> None:
    made, is_new = put(fake)

    assert is_new
    assert (made.topic, made.name, made.topic_id, made.ordinal) == ("test1", "A", topic_id(fake), 0)
    assert made.settings == SETTINGS
    assert (made.version, made.created_at, made.updated_at) == (1, NOW, NOW)
    assert subscriptions.get_subscription(fake.world, "test1", "A") == made
    assert counters(fake) == (1, 1, 1)


def test_a_replaced_subscription_keeps_its_identity_and_counts_a_version(fake: FakeWorld) -> None:
    first, _ = put(fake)
    fake.clock.sleep(1)

    second, is_new = put(fake, settings=replace(SETTINGS, filter=PEAR, timeout_s=12))

    assert not is_new
    assert (second.ordinal, second.created_at) == (first.ordinal, NOW)
    assert (second.version, second.updated_at) == (2, NOW + 1_000)
    assert (second.settings.filter, second.settings.timeout_s) == (PEAR, 12)
    assert counters(fake) == (2, 1, 1)


def test_each_version_of_a_filter_is_stored_with_the_version_of_the_topic_since_when(fake: FakeWorld) -> None:
    put(fake)
    put(fake, "B", replace(SETTINGS, filter=None))
    put(fake, settings=replace(SETTINGS, filter=PEAR))

    key = version_key("test1", 0, 2)
    about = {"pk": key.pk, "sk": key.sk, "name": "A", "topic_id": topic_id(fake), "ordinal": 0, "version": 2}
    row = about | {"changed_at": NOW, "since": 3, "filter": json.dumps(PEAR, sort_keys=True)}
    assert fake.store.rows[key] == row
    assert "filter" not in fake.store.rows[version_key("test1", 1, 2)]
    assert versions(fake, "A") == (
        FilterVersion(2, PEAR, NOW, 3, 0, "A", topic_id(fake)),
        FilterVersion(1, APPLE, NOW, 1, 0, "A", topic_id(fake)),
    )
    assert versions(fake, "B") == (FilterVersion(2, None, NOW, 2, 1, "B", topic_id(fake)),)


def test_a_publish_evaluated_the_filters_that_were_in_force_at_its_version(fake: FakeWorld) -> None:
    put(fake)
    put(fake, "B", replace(SETTINGS, filter=None))
    put(fake, settings=replace(SETTINGS, filter=PEAR))

    def at(version: int) -> dict[int, int]:
        found = filter_history.versions_in_force(fake.world, "test1", version, {0, 1})
        return {ordinal: each.version for ordinal, each in found.items()}

    assert [at(version) for version in range(4)] == [{}, {0: 1}, {0: 1, 1: 2}, {0: 2, 1: 2}]


def kept(fake: FakeWorld, name: str = "A") -> list[int]:
    """Return the versions that the time to live has left."""
    now_s = fake.clock.now() // 1000
    for key in [key for key, row in fake.store.rows.items() if row.get("ttl", now_s) < now_s]:
        del fake.store.rows[key]
    return [each.version for each in versions(fake, name)]


def test_of_an_old_history_the_last_twenty_versions_stay(fake: FakeWorld) -> None:
    for number in range(VERSIONS_KEPT + 5):
        is_third = version_key("test1", 0, 3).__eq__
        with throttled(fake.store, is_third) if number == VERSIONS_KEPT + 2 else nullcontext():
            put(fake, settings=replace(SETTINGS, timeout_s=number + 1))
        fake.clock.sleep(1)
    assert len(kept(fake)) == VERSIONS_KEPT + 5
    fake.clock.sleep(TOMBSTONE_S + 100)

    assert kept(fake) == list(range(VERSIONS_KEPT + 5, 5, -1))


def test_a_version_stays_as_long_as_messages_may_live_that_it_was_evaluated_for(fake: FakeWorld) -> None:
    for _ in range(VERSIONS_KEPT + 1):
        put(fake)
    put(fake, "B")
    fake.clock.sleep(TOMBSTONE_S)
    assert min(kept(fake)) == 1, "a receipt of its time may be there until now"
    fake.clock.sleep(1)
    assert min(kept(fake)) == 2
    assert len(kept(fake, "B")) == 1


def test_a_change_reads_nothing_of_the_history_however_long_it_is(fake: FakeWorld) -> None:
    for _ in range(3 * VERSIONS_KEPT):
        put(fake)
    read = fake.store.rows_read
    put(fake)
    assert fake.store.rows_read - read < VERSIONS_KEPT
    page = subscriptions.filter_versions(fake.world, "test1", "A", 10, None)
    following = subscriptions.filter_versions(fake.world, "test1", "A", 10, page.cursor)
    assert [each.version for each in (*page.items, *following.items)] == list(range(61, 41, -1))


def test_a_page_of_a_large_topic_reads_its_own_rows_alone(fake: FakeWorld) -> None:
    for number in range(60):
        put(fake, f"S{number:02d}")
    read = fake.store.rows_read
    page = subscriptions.list_subscriptions(fake.world, "test1", 10, "S19")
    assert [each.name for each in page.items] == [f"S{number}" for number in range(20, 30)]
    assert (page.cursor, fake.store.rows_read - read) == ("S29", 12)


def test_histories_are_those_of_one_ordinal(fake: FakeWorld) -> None:
    for number in range(11):
        put(fake, f"S{number}")
    put(fake, "S1")

    assert [kept(fake, name) for name in ("S0", "S1", "S2", "S10")] == [[1], [3, 2], [3], [11]]


@pytest.mark.parametrize(("exists", "if_match"), [(False, 1), (True, 2), (True, 0)])
def test_another_version_than_asked_for_is_neither_replaced_nor_removed(
    fake: FakeWorld, exists: bool, if_match: int
) -> None:
    if exists:
        put(fake)
    before = dict(fake.store.rows)

    with pytest.raises(PreconditionFailedError):
        put(fake, if_match=if_match)
    with pytest.raises(PreconditionFailedError if exists else NotFoundError):
        subscriptions.delete_subscription(fake.world, "test1", "A", if_match=if_match)

    assert fake.store.rows == before


def test_a_version_of_a_deleted_subscription_is_none_of_the_one_created_again(fake: FakeWorld) -> None:
    former, _ = put(fake)
    subscriptions.delete_subscription(fake.world, "test1", "A")
    present, _ = put(fake)

    assert present.version > former.version
    for refused in (put, lambda fake, if_match: subscriptions.delete_subscription(fake.world, "test1", "A", if_match)):
        with pytest.raises(PreconditionFailedError):
            refused(fake, if_match=former.version)


def test_a_filter_that_was_changed_meanwhile_is_not_replaced(fake: FakeWorld) -> None:
    edited = fake.subscribe("A", "apple").version
    change_filter(fake.world, "test1", "A", PEAR, edited)
    with pytest.raises(PreconditionFailedError):
        change_filter(fake.world, "test1", "A", None, edited)
    assert subscriptions.get_subscription(fake.world, "test1", "A").settings.filter == PEAR


def test_a_full_topic_takes_no_new_subscription_and_still_changes_those_it_has(fake: FakeWorld) -> None:
    put(fake)
    fake.store.rows[topic_key("test1")]["subscription_count"] = SUBSCRIPTIONS_MAX

    with pytest.raises(ConflictError):
        put(fake, "B")
    assert put(fake)[0].version == 2
    fake.store.rows[topic_key("test1")]["subscription_count"] = SUBSCRIPTIONS_MAX - 1
    assert put(fake, "B")[1]


COMPARED: dict[str, object] = {"kind": "sql92", "expression": "a < b"}
FOUND: dict[str, object] = {"kind": "sql92", "expression": "a = 'x' AND b > 1"}


def unindexed(fake: FakeWorld) -> object:
    return fake.store.rows[topic_key("test1")]["unindexed_characters"]


def test_filters_that_no_index_decides_have_a_bound_in_each_topic(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscribing, "UNINDEXED_MAX", 10)
    for name in "AB":
        put(fake, name, replace(SETTINGS, filter=COMPARED))
    assert unindexed(fake) == 10

    with pytest.raises(ConflictError, match="and would have 15"):
        put(fake, "C", replace(SETTINGS, filter=COMPARED))
    put(fake, "C", replace(SETTINGS, filter=FOUND))
    shadows.put_shadow(fake.world, "test1", "C", COMPARED)
    for change in (
        lambda: put(fake, "C", replace(SETTINGS, filter=COMPARED)),
        lambda: change_filter(fake.world, "test1", "C", COMPARED, None),
        lambda: shadows.promote_shadow(fake.world, "test1", "C"),
    ):
        with pytest.raises(ConflictError, match="and would have 15"):
            change()
    assert subscriptions.get_subscription(fake.world, "test1", "C").settings.filter == {**FOUND, "dialect": "strict"}

    put(fake, "A", replace(SETTINGS, filter=COMPARED))
    change_filter(fake.world, "test1", "A", FOUND, None)
    subscriptions.delete_subscription(fake.world, "test1", "B")
    assert unindexed(fake) == 0
    shadows.promote_shadow(fake.world, "test1", "C")
    assert unindexed(fake) == 5


def test_what_is_not_there_is_named(fake: FakeWorld) -> None:
    with pytest.raises(NotFoundError, match="subscription"):
        subscriptions.get_subscription(fake.world, "test1", "A")
    with pytest.raises(NotFoundError, match="topic"):
        subscriptions.get_subscription(fake.world, "none", "A")


def test_a_removed_subscription_leaves_its_name_and_a_tombstone_and_nothing_else(fake: FakeWorld) -> None:
    made, _ = put(fake)
    shadows.put_shadow(fake.world, "test1", "A", PEAR)
    version = counters(fake)[0]
    fake.clock.sleep(5)

    subscriptions.delete_subscription(fake.world, "test1", "A")

    assert counters(fake) == (int(str(version)) + 1, 0, 1)
    assert subscription_key("test1", "A") not in fake.store.rows
    assert shadow_key("test1", "A") not in fake.store.rows
    tombstone = LANES.value_of(fake.store.rows[lane_key("test1", made.subscription_id)])
    assert (tombstone.topic, tombstone.state) == ("test1", LaneState.REMOVED)
    assert (tombstone.appended, tombstone.claim) == (0, 0)
    assert tombstone.next_attempt_at == tombstone.wake_at == NOW + 5_000
    assert tombstone.ttl == NOW // 1000 + 5 + 8 * 86_400
    kept = fake.store.rows[name_key("test1", 0)]
    assert (kept["name"], kept["ordinal"], kept["ttl"]) == ("A", 0, tombstone.ttl)
    assert fake.workflow.tasks == [Task("test1", made.subscription_id, tombstone.generation)]


def test_a_subscription_made_again_has_a_new_ordinal(fake: FakeWorld) -> None:
    put(fake)
    subscriptions.delete_subscription(fake.world, "test1", "A")

    made, is_new = put(fake)

    assert (made.ordinal, made.version, is_new) == (1, 3, True)
    assert counters(fake) == (3, 1, 2)
    assert len(fake.store.query(Table.REGISTRY, topic_key("test1").pk, sk_from="NAME#", sk_to="NAME$")) == 1
