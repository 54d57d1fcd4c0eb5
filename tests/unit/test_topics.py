"""Changes of topics beside repeated requests and beside other processes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tagcast.errors import ConflictError
from tagcast.model import FilterType, Ordering, Topic, TopicSettings
from tagcast.ports import GroupQueue, QueueEntry
from tagcast.registry import subscriptions, topics
from tagcast.registry.directory import read_topic
from tagcast.registry.subscribing import NO_VERSION
from tagcast.rows import stored
from tagcast.rows.stored import ROWS_AT_ONCE

from tests.fakes.raced_store import RacedStore, RepeatingStore
from tests.fakes.wide_topic import topic_with
from tests.fakes.world import FakeWorld
from tests.unit.worlds import changing

SETTINGS = TopicSettings(retention_s=60)


@pytest.mark.parametrize(
    "change",
    [
        lambda fake, version: topics.put_topic(fake.world, "test1", SETTINGS, version)[0],
        lambda fake, version: topics.change_topic(fake.world, "test1", lambda settings: SETTINGS, version),
    ],
)
def test_a_conditional_change_succeeds_although_the_sdk_repeats_its_write(
    change: Callable[[FakeWorld, int], Topic],
) -> None:
    fake = FakeWorld(store=RepeatingStore())
    fake.topic()

    changed = change(fake, read_topic(fake.world, "test1").version)

    assert changed == read_topic(fake.world, "test1")
    assert changed.settings == SETTINGS


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    "create",
    [
        lambda fake: topics.put_topic(fake.world, "test1", SETTINGS),
        lambda fake: topics.put_topic(fake.world, "test1", SETTINGS, NO_VERSION, FilterType.TAGS),
    ],
)
def test_a_topic_reuses_no_ordinal_of_one_that_lived_while_it_was_created(
    create: Callable[[FakeWorld], object], is_first: bool
) -> None:
    store = RacedStore()
    fake = FakeWorld(store=store)

    def live() -> int:
        fake.topic()
        ordinal = fake.subscribe("A").ordinal
        subscriptions.delete_subscription(fake.world, "test1", "A")
        topics.delete_topic(fake.world, "test1")
        return ordinal

    former = -1 if is_first else live()
    ordinals = [former]
    store.once_before("TOPIC#test1", lambda: ordinals.append(live()))
    create(fake)

    ordinals.append(fake.subscribe("A").ordinal)
    assert ordinals == sorted(set(ordinals))


def test_the_ordering_of_a_large_topic_changes_although_its_subscriptions_keep_changing() -> None:
    fake = FakeWorld()
    fake.topic()
    fake.group("G", ordered=True)

    with changing(fake):
        changed = topics.change_topic(fake.world, "test1", lambda known: replace(known, ordering=Ordering.KEY))

    assert changed.settings.ordering is Ordering.KEY


def test_neither_names_nor_ordered_groups_are_read_from_all_rows_at_once() -> None:
    fake = topic_with(2 * ROWS_AT_ONCE)
    group = fake.group("z", topic="wide", ordered=True)
    fake.group_queues.send(GroupQueue.of(group), [QueueEntry("wide", "1", "g")])
    fake.store.most_rows_at_once = 0

    assert len(stored.names(fake.store, "wide")) == 2 * ROWS_AT_ONCE + 1
    with pytest.raises(ConflictError, match="ordering"):
        topics.change_topic(fake.world, "wide", lambda known: replace(known, ordering=Ordering.KEY))
    assert fake.store.most_rows_at_once == ROWS_AT_ONCE
