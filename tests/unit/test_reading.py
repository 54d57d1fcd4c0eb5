"""A large topic of which nothing is kept is read in parts: nobody waits long for it, and nobody begins in vain."""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tagcast.errors import UnavailableError
from tagcast.model import Subscription
from tagcast.ports import GroupQueue, Memory
from tagcast.registry import subscriptions
from tagcast.registry.directory import Directory, directory_of, kept_directory_of
from tagcast.registry.reading import READ_AT_ONCE, READ_FOR_S
from tagcast.repairing.removals import remove_orphans
from tagcast.rows.stored import ROWS_AT_ONCE
from tagcast.rows.topic import RECENT_MAX
from tagcast.tables import Row

from tests.fakes.memory_store import MemoryStore
from tests.fakes.wide_topic import topic_with
from tests.fakes.world import FakeWorld

COUNT = 2 * READ_AT_ONCE + 100
OVER = -math.inf
FIRST, LAST = "subscriber-000000", f"subscriber-{COUNT - 1:06d}"


class SlowTable(MemoryStore):
    """The table of a world; each query takes all the time that a publish has for reading."""

    def __init__(self, fake: FakeWorld) -> None:
        super().__init__()
        self.rows, self.clock = fake.store.rows, fake.clock

    def query(self, *asked: Any, **how: Any) -> list[Row]:
        self.clock.sleep(READ_FOR_S)
        return super().query(*asked, **how)


@pytest.fixture(scope="module")
def stored() -> FakeWorld:
    return topic_with(COUNT)


@pytest.fixture
def wide(stored: FakeWorld) -> Iterator[FakeWorld]:
    """A topic of three parts, of which nobody knows or kept anything; what a test changes of it is gone behind it."""
    rows = {key: dict(row) for key, row in stored.store.rows.items()}
    stored.index_archive.contents.clear()
    restart(stored)
    yield stored
    stored.store.rows.clear()
    stored.store.rows.update(rows)


def restart(fake: FakeWorld) -> None:
    fake.world = replace(fake.world, store=fake.store, memory=Memory())
    fake.store.rows_read = 0


def without_time(fake: FakeWorld) -> Directory | None:
    """Return what a process knows that has time for one part only; None if it was told to try again."""
    try:
        return kept_directory_of(fake.world, "wide", OVER)
    except UnavailableError:
        return None


def test_whoever_has_no_time_leaves_what_it_read_to_the_next_process(wide: FakeWorld) -> None:
    for rest in (2, 1):
        assert without_time(wide) is None, f"{rest} parts are left"
        assert READ_AT_ONCE <= wide.store.rows_read < READ_AT_ONCE + 10
        restart(wide)
    known = without_time(wide)
    assert known is not None
    assert wide.store.rows_read < 200
    restart(wide)
    assert kept_directory_of(wide.world, "wide").by_name == known.by_name == directory_of(wide.world, "wide").by_name


def test_a_process_goes_on_where_it_stopped_although_nothing_can_be_kept(wide: FakeWorld) -> None:
    found = []
    for _ in range(3):
        found.append(without_time(wide))
        wide.index_archive.contents.clear()
    assert [each is None for each in found] == [True, True, False]


def test_what_changes_while_a_topic_is_read_is_not_missed(wide: FakeWorld) -> None:
    changed: list[Subscription] = []
    while (known := without_time(wide)) is None:
        part = len(changed)
        subscriptions.delete_subscription(wide.world, "wide", f"subscriber-{part:06d}")
        subscriptions.delete_subscription(wide.world, "wide", f"subscriber-{COUNT - 1 - part:06d}")
        changed += [wide.subscribe(f"a new one {part}", "new", topic="wide")]
        wide.subscribe(f"subscriber-{part + 10:06d}", "changed", topic="wide")
        restart(wide)
    restart(wide)
    assert len(changed) == 2
    assert known.by_ordinal == directory_of(wide.world, "wide").by_ordinal
    assert known.in_order == directory_of(wide.world, "wide").in_order


def test_a_topic_that_changed_too_often_meanwhile_is_read_from_the_beginning(wide: FakeWorld) -> None:
    assert without_time(wide) is None
    for number in range(RECENT_MAX + 1):
        wide.subscribe(f"subscriber-{number:06d}", "changed", topic="wide")
    restart(wide)
    known = kept_directory_of(wide.world, "wide")
    assert wide.store.rows_read > COUNT
    assert known.by_name == directory_of(wide.world, "wide").by_name


def test_what_was_left_in_another_form_is_read_again(wide: FakeWorld) -> None:
    assert without_time(wide) is None
    wide.index_archive.contents = dict.fromkeys(wide.index_archive.contents, b"of another format")
    restart(wide)
    assert len(kept_directory_of(wide.world, "wide").by_name) == COUNT
    assert wide.store.rows_read > COUNT


def test_a_publish_is_answered_after_some_seconds_of_reading_and_in_the_end_it_is_accepted(wide: FakeWorld) -> None:
    slow, refused = SlowTable(wide), 0
    accepted: list[str] = []
    while not accepted:
        restart(wide)
        wide.world = replace(wide.world, store=slow)
        try:
            accepted = wide.publish("x", topic="wide")
        except UnavailableError:
            refused += 1
    assert refused == 2


def test_queues_are_looked_up_without_all_rows_in_memory(wide: FakeWorld) -> None:
    group = GroupQueue.of(wide.group("z", topic="wide"))
    wide.group_queues.make(replace(group, subscription_id=wide.subscribe(FIRST, topic="wide").subscription_id))
    wide.store.most_rows_at_once = 0

    assert asyncio.run(remove_orphans(wide.world)) == 1
    assert set(wide.group_queues.every()) == {group}
    assert wide.store.most_rows_at_once == ROWS_AT_ONCE
