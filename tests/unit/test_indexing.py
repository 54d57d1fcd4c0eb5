"""The index of a large topic is built in parts: nobody waits long for it, and nobody builds what others built."""

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from tagcast.delivery.publishing import publish
from tagcast.errors import UnavailableError
from tagcast.filters.compiled import FilterValue
from tagcast.filters.event_pattern.pattern import read_pattern
from tagcast.filters.index.parted_index import count_values, parts_of
from tagcast.filters.index.topic_index import TopicIndex
from tagcast.model import Draft
from tagcast.ports import Memory
from tagcast.registry import indexing, kept_subscriptions, subscriptions
from tagcast.registry.directory import kept_directory_of, read_topic
from tagcast.registry.indexing import BUILD_FOR_S
from tagcast.registry.kept_subscriptions import KEPT_MIN
from tagcast.rows import stored
from tagcast.rows.subscription import KeptSubscriptions
from tagcast.rows.topic import RECENT_MAX

from tests.fakes.wide_topic import topic_with
from tests.fakes.world import FakeWorld

EFFORT_MAX = 20_000
COUNT = KEPT_MIN + 20
PARTS = 4


class Builds(list[Mapping[int, FilterValue | None]]):
    """What was built."""


@pytest.fixture
def large() -> FakeWorld:
    """A topic that is kept beside the table, without an index."""
    fake = topic_with(COUNT)
    kept_directory_of(fake.world, "wide")
    restart(fake)
    return fake


@pytest.fixture
def builds(large: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> Builds:
    """Each takes all the time that a publish has for it, and a topic of so many needs several."""
    done, build = Builds(), TopicIndex.build

    def slowly(filters: Mapping[int, FilterValue | None]) -> TopicIndex:
        done.append(filters)
        large.clock.sleep(BUILD_FOR_S)
        return build(filters)

    monkeypatch.setattr(TopicIndex, "build", slowly)
    monkeypatch.setattr(indexing, "EFFORT_MAX", EFFORT_MAX)
    return done


def restart(fake: FakeWorld) -> None:
    fake.world = replace(fake.world, memory=Memory())


def matched(fake: FakeWorld, tag: str = "order") -> int | None:
    """Return how many subscriptions a message matches; None if its publisher was told to try again."""
    rows = dict(fake.store.rows)
    try:
        return publish(fake.world, "wide", [Draft(b"1", tags=(tag,))])[0].matched
    except UnavailableError:
        assert fake.store.rows == rows, "nothing is stored of what was refused"
        return None


def until_accepted(fake: FakeWorld, *, is_cold: bool, tag: str = "order") -> tuple[int, int]:
    """Return how often it takes to publish, and how many subscriptions the message then matches."""
    tries = 1
    while (count := matched(fake, tag)) is None:
        tries += 1
        if is_cold:
            restart(fake)
    return tries, count


def parts(fake: FakeWorld) -> list[str]:
    return [name for name in fake.index_archive.contents if "/parts/" in name]


@pytest.mark.parametrize("is_cold", [True, False])
def test_each_publish_builds_one_part_until_one_is_accepted(large: FakeWorld, builds: Builds, is_cold: bool) -> None:
    assert until_accepted(large, is_cold=is_cold) == (PARTS, COUNT)
    assert sorted(ordinal for part in builds for ordinal in part) == list(range(COUNT)), "each was built once"
    assert len(parts(large)) == PARTS
    restart(large)
    assert matched(large, "region-7") == COUNT // 50 + 1
    assert len(builds) == PARTS, "the whole was kept as well"


def test_few_large_filters_are_built_in_parts_as_well(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "EFFORT_MAX", EFFORT_MAX)
    monkeypatch.setattr(indexing, "BUILD_FOR_S", 0)
    fake.topic("wide")
    for name in "abcdefgh":
        fake.subscribe(name, "order", *(f"{number:064d}" for number in range(99)), topic="wide")
    assert until_accepted(fake, is_cold=True) == (len(parts(fake)), 8)
    assert len(parts(fake)) > 1


def test_a_process_goes_on_although_nothing_can_be_kept(large: FakeWorld, builds: Builds) -> None:
    for _ in range(PARTS - 1):
        assert matched(large) is None
        large.index_archive.contents.clear()
    assert matched(large) == COUNT
    assert len(builds) == PARTS


def test_of_a_topic_that_changed_only_the_parts_that_did_are_built_again(large: FakeWorld, builds: Builds) -> None:
    until_accepted(large, is_cold=False)
    builds.clear()
    for number in range(RECENT_MAX + 1):
        large.subscribe(f"subscriber-{number:06d}", "changed", topic="wide")
    restart(large)
    assert until_accepted(large, is_cold=True, tag="changed") == (1, RECENT_MAX + 1)
    assert len(builds) == 1


def test_a_few_changes_build_no_part(large: FakeWorld, builds: Builds) -> None:
    until_accepted(large, is_cold=False)
    builds.clear()
    subscriptions.delete_subscription(large.world, "wide", "subscriber-000000")
    large.subscribe("subscriber-000001", "changed", topic="wide")
    restart(large)
    assert matched(large) == COUNT - 2
    assert [list(each) for each in builds] == [[1]]


def test_a_part_of_another_form_is_built_again(large: FakeWorld, builds: Builds) -> None:
    assert matched(large) is None
    large.index_archive.contents[parts(large)[0]] = b"of another format"
    restart(large)
    assert until_accepted(large, is_cold=True) == (PARTS, COUNT)
    assert len(builds) == PARTS + 1


def test_an_index_is_that_of_what_was_kept_which_may_be_newer_in_part(large: FakeWorld) -> None:
    assert matched(large, "newer") == 0
    before = read_topic(large.world, "wide")
    large.subscribe("subscriber-000000", "newer", topic="wide")
    rows = KeptSubscriptions()
    found = stored.subscription_rows(large.store, "wide", after="", limit=COUNT)
    kept_subscriptions.save(large.world, before, [rows.of(row) for row in found])
    restart(large)
    assert matched(large, "newer") == 1


def test_neighbours_of_a_change_stay_what_they_were() -> None:
    dice = random.Random(7)
    filters: dict[int, FilterValue | None] = {
        dice.randrange(50_000): {"kind": "tags", "tags": ["t" * dice.randint(1, 60)]} for _ in range(2_000)
    }
    before = parts_of(filters, EFFORT_MAX)
    assert [ordinal for part in before for ordinal in part.filters] == sorted(filters)
    assert {ordinal: value for part in before for ordinal, value in part.filters.items()} == filters
    assert len(before) > PARTS
    changed = dice.choice(list(filters))
    after = parts_of({**filters, changed: None}, EFFORT_MAX)
    assert [part.digest for part in before if changed not in part.filters] == [
        part.digest for part in after if changed not in part.filters
    ]
    moved = parts_of({ordinal + 65_536: value for ordinal, value in filters.items()}, EFFORT_MAX)
    assert not {part.digest for part in before} & {part.digest for part in moved}, "others own the same filters"
    later = parts_of({**filters, 60_000: None}, EFFORT_MAX)
    assert {part.digest for part in before[:-1]} <= {part.digest for part in later}


def test_what_takes_long_is_divided_sooner() -> None:
    def count(value: FilterValue) -> int:
        return len(parts_of(dict.fromkeys(range(1_000), value), EFFORT_MAX))

    tags, condition = {"kind": "tags", "tags": ["a = 1"]}, {"kind": "sql92", "expression": "a = 1"}
    assert 1 < 4 * count(tags) <= count(condition)
    assert parts_of({}, EFFORT_MAX) == []
    assert len(parts_of({7: {"kind": "tags", "tags": ["x" * EFFORT_MAX]}}, EFFORT_MAX)) == 1


def test_a_short_pattern_with_many_alternatives_takes_as_long_as_a_long_one() -> None:
    alternatives = {f"o{place}": {"$or": [{f"x{n}": [1]} for n in range(10)]} for place in range(2)}
    wanted: dict[str, object] = {**alternatives, **{f"f{n}": [1] for n in range(98)}}
    value: FilterValue = {"kind": "event_pattern", "pattern": wanted, "dialect": "eventbridge", "scope": "body"}
    pattern = read_pattern(wanted)
    values = sum(pattern.conditions[place].size for alternative in pattern.alternatives for place in alternative)
    assert count_values(wanted) == (len(pattern.alternatives), values) == (100, 10_000)

    parts = parts_of(dict.fromkeys(range(1, 151), value), indexing.EFFORT_MAX)

    most = max(values * len(part.filters) for part in parts)
    assert most <= 100_000, "about a second of CPU time"
