"""Rows of what was removed go when no receipt can name it, and no earlier; until then everything is told."""

from itertools import product

import pytest
from tagcast.archive.change_records import records_of
from tagcast.archive.record import RowChange
from tagcast.operating import messages
from tagcast.ports import Key, Row, Table
from tagcast.registry import filter_history, subscriptions, topics
from tagcast.registry.subscriptions import get_subscription
from tagcast.rows.keys import counters_key, name_key, version_key
from tagcast.rows.message import GARBAGE_S

from tests.fakes.world import FakeWorld

LATEST_RECEIPT_S = 86_400 + GARBAGE_S


def collect(fake: FakeWorld, now_s: int) -> list[Key]:
    """Let the time to live take what it may at *now_s*."""
    gone = [key for key, row in fake.store.rows.items() if row.get("ttl", now_s) < now_s]
    for key in gone:
        del fake.store.rows[key]
    return gone


def test_name_and_versions_of_a_removed_subscription_go_after_the_last_receipt_that_can_name_them(
    fake: FakeWorld,
) -> None:
    fake.subscribe("A", "apple")
    fake.subscribe("A", "pear")
    fake.subscribe("B")
    [message_id] = fake.publish("1", tags=("pear",))
    subscriptions.delete_subscription(fake.world, "test1", "A")
    removed_s = fake.clock.now() // 1000
    rows = [name_key("test1", 0), version_key("test1", 0, 1), version_key("test1", 0, 2)]

    collect(fake, removed_s + LATEST_RECEIPT_S)
    assert all(key in fake.store.rows for key in rows)
    told = messages.message_view(fake.world, "test1", message_id).subscribers["A"]
    assert told.filter_version == 2

    collect(fake, removed_s + LATEST_RECEIPT_S + 5 * 86_400)
    assert not any(key in fake.store.rows for key in rows)
    assert version_key("test1", 1, 3) in fake.store.rows


def test_a_subscription_with_more_versions_than_a_transaction_holds_can_be_removed(fake: FakeWorld) -> None:
    for number in range(120):
        fake.subscribe("A", f"tag{number}")

    subscriptions.delete_subscription(fake.world, "test1", "A")

    kept = [row for key, row in fake.store.rows.items() if key.sk.startswith("VERSION#")]
    assert len(kept) == sum("ttl" in row for row in kept) == 120


def test_forgetting_a_version_is_told_to_the_archive_as_the_record_it_had(fake: FakeWorld) -> None:
    fake.subscribe("A", "apple")
    key = version_key("test1", 0, 1)
    before = fake.store.get(key)
    subscriptions.delete_subscription(fake.world, "test1", "A")
    after = fake.store.get(key)

    def told(old: Row | None, new: Row | None) -> list[str]:
        return [record.line() for record in records_of(RowChange(old, new, 7), lambda topic: False)]

    assert before is not None
    assert told(before, after) == told(None, before)
    assert told(after, None) == []


def test_a_topic_of_a_removed_ones_name_uses_no_ordinal_again_while_the_archive_may_name_it(fake: FakeWorld) -> None:
    fake.subscribe("A")
    subscriptions.delete_subscription(fake.world, "test1", "A")
    topics.delete_topic(fake.world, "test1")
    removed_s = fake.clock.now() // 1000
    left = {key.sk.partition("#")[0] for key in fake.store.rows if key.table is Table.REGISTRY}
    assert left == {"GRAVE", "NAME", "VERSION"}

    assert counters_key("test1") not in collect(fake, removed_s + 3 * 366 * 86_400)
    fake.topic()
    assert fake.subscribe("A").ordinal == 1
    subscriptions.delete_subscription(fake.world, "test1", "A")
    topics.delete_topic(fake.world, "test1")
    assert counters_key("test1") in collect(fake, removed_s + topics.COUNTERS_LIFE_S + 1)


@pytest.mark.parametrize("changes_after", [0, 39])
def test_a_view_reads_little_of_filters_that_changed_often(fake: FakeWorld, changes_after: int) -> None:
    names = [f"S{number:02d}" for number in range(filter_history.ALONE_MAX + 1)]
    long = [f"{number:064d}" for number in range(99)]

    def change(times: int) -> None:
        for _, name in product(range(times), names):
            fake.subscribe(name, "apple", *long)

    change(40 - changes_after)
    [message_id] = fake.publish("1", tags=("apple",))
    change(changes_after)
    versions = {name: get_subscription(fake.world, "test1", name).version - changes_after for name in names}
    fake.store.rows_read = 0

    told = messages.message_view(fake.world, "test1", message_id).subscribers

    assert {name: entry.filter_version for name, entry in told.items()} == versions
    assert fake.store.rows_read < 15 * len(names)
