"""How a process comes to know the subscriptions of a topic."""

from __future__ import annotations

import pytest
from tagcast import directory
from tagcast.directory import ARCHIVED_SUBSCRIPTIONS_MIN
from tagcast.topic_index import TopicIndex

from tests.fakes.world import FakeWorld


@pytest.fixture
def large() -> FakeWorld:
    fake = FakeWorld()
    fake.topic()
    for number in range(ARCHIVED_SUBSCRIPTIONS_MIN):
        fake.subscribe(f"S{number}", f"tag{number}")
    fake.world.snapshots.clear()
    return fake


def matched(fake: FakeWorld) -> int:
    fake.publish("1", tags=["tag7"])
    return len(fake.queue.entries)


def test_a_large_topic_is_compiled_once_and_loaded_by_later_cold_starts(large, monkeypatch):
    matched(large)
    [name] = large.index_archive.contents
    large.world.snapshots.clear()
    monkeypatch.setattr(TopicIndex, "build", classmethod(lambda cls, filters: pytest.fail("compiled again")))

    assert matched(large) == 2
    assert large.index_archive.loads == [name, name]


@pytest.mark.parametrize("content", [b"not json", b'["another format",[],[],[],[]]'])
def test_a_snapshot_that_cannot_be_read_is_built_anew(large, content):
    matched(large)
    large.index_archive.contents = dict.fromkeys(large.index_archive.contents, content)
    large.world.snapshots.clear()

    assert matched(large) == 2
    assert set(large.index_archive.contents.values()) != {content}


def test_a_change_of_subscriptions_never_meets_an_older_index(large):
    matched(large)
    large.subscribe("new", "tag7")

    large.publish("2", tags=["tag7"])
    large.deliver()

    assert large.pusher.received["new"] == ["2"]
    assert len(large.index_archive.contents) == 2


def test_small_topics_and_functions_that_do_not_match_never_ask_the_archive(large):
    small = FakeWorld()
    small.topic()
    small.subscribe("A")
    small.publish("1")

    directory.snapshot(large.world, "test1")

    assert small.index_archive.loads == large.index_archive.loads == []
