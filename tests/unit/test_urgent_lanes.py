"""The list of the lanes that somebody has to look at, over all topics."""

from zlib import crc32

import pytest
from tagcast.errors import InvalidRequestError
from tagcast.model import LaneState
from tagcast.operating import lanes
from tagcast.operating.urgent_lanes import UrgentLane, urgent_lanes
from tagcast.registry import subscriptions
from tagcast.rows.lane import WAKE_SHARDS

from tests.fakes.pages import pages
from tests.fakes.world import FakeWorld
from tests.unit.worlds import failing

NOW = 1_800_000_000_000


@pytest.fixture
def fake() -> FakeWorld:
    """Five topics, each with a subscription that failed a minute after the one before."""
    fake = FakeWorld()
    for number in range(5):
        fake.topic(f"test{number}")
        failing(fake, f"S{number}", topic=f"test{number}")
        fake.first_round(f"body {number}", topic=f"test{number}")
        fake.clock.sleep(60)
    return fake


def names(found: tuple[UrgentLane, ...]) -> list[str]:
    return [lane.subscription for lane in found]


def test_the_lanes_of_all_topics_come_in_the_order_in_which_they_have_to_be_looked_at(fake: FakeWorld) -> None:
    page = urgent_lanes(fake.world, 10, None)

    assert names(page.items) == ["S0", "S1", "S2", "S3", "S4"]
    assert page.cursor is None
    first = page.items[0]
    assert (first.topic, first.state, first.accepted_at) == ("test0", LaneState.BLOCKED, NOW)
    assert first.head is not None
    assert (first.head.attempts, first.head.last_outcome) == (1, "http 500")


def test_pages_of_one_shard_of_the_index_lead_to_each_of_its_lanes() -> None:
    fake = FakeWorld()
    fake.topic()
    fake.subscribe("first")
    shard = lane_shard(fake, "first")
    found, number = ["first"], 0
    while len(found) < 5:
        number += 1
        fake.subscribe(f"S{number}")
        if lane_shard(fake, f"S{number}") == shard:
            found.append(f"S{number}")
    fake.fail(*found)
    fake.first_round("body")

    seen = pages(lambda cursor: urgent_lanes(fake.world, 2, cursor))

    assert max(len(page.items) for page in seen) <= 2
    assert sorted(name for page in seen for name in names(page.items)) == sorted(found)


def lane_shard(fake: FakeWorld, name: str) -> int:
    return crc32(subscriptions.get_subscription(fake.world, "test1", name).subscription_id.encode()) % WAKE_SHARDS


def test_the_name_of_a_subscription_is_read_once_and_never_anothers(fake: FakeWorld) -> None:
    def rows_read() -> int:
        before = fake.store.rows_read
        assert names(urgent_lanes(fake.world, 10, None).items) == ["S0", "S1", "S2", "S3", "S4"]
        return fake.store.rows_read - before

    assert (rows_read(), rows_read()) == (15, 10)

    subscriptions.delete_subscription(fake.world, "test0", "S0")
    fake.run_workflows(until=fake.clock.now() + 1)
    failing(fake, "other", topic="test0")
    fake.first_round("later", topic="test0")
    assert sorted(names(urgent_lanes(fake.world, 10, None).items)) == ["S1", "S2", "S3", "S4", "other"]


def test_a_lane_that_is_active_again_or_whose_subscription_is_gone_is_not_in_it(fake: FakeWorld) -> None:
    subscriptions.delete_subscription(fake.world, "test1", "S1")
    assert sorted(names(urgent_lanes(fake.world, 10, None).items)) == ["S0", "S2", "S3", "S4"]
    lanes.pause(fake.world, "test2", "S2")
    del fake.pusher.behaviours["S0"]
    fake.run_workflows(until=fake.clock.now() + 1)

    assert sorted(names(urgent_lanes(fake.world, 10, None).items)) == ["S2", "S3", "S4"]


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "[]", "{}", "[1]", "[null]", "[[1], 2, 3, 4, 5, 6, 7, 8]", "7", "[" * 1_500),
        *(f"[{place}{', null' * 7}]" for place in ('[1e999, "t", "s"]', '[true, "t", "s"]', '[1, "t", "\\ud800"]')),
        f'[[{"9" * 400}, "t", "s"]{", null" * 7}]',
    ],
)
def test_what_is_no_cursor_of_this_list_is_refused(fake: FakeWorld, cursor: str) -> None:
    with pytest.raises(InvalidRequestError):
        urgent_lanes(fake.world, 10, cursor)
