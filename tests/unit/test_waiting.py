"""Places to wait in: requests about one topic never keep out those about another, nor pulls and tails each other."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from tagcast.errors import ThrottledError
from tagcast.operating import lanes
from tagcast.registry.waiting import LEFT_LATE_S, waiting
from tagcast.rows.keys import waiting_key
from tagcast.rows.waiting import WaitingFor, WaitingPlace, leaving_update, taking_update
from tagcast.tables import ABSENT, Key, Row, Update, Write

from tests.fakes.calls import Before
from tests.fakes.memory_store import MemoryStore
from tests.fakes.world import FakeWorld
from tests.unit.worlds import ask

PLACES = 3
MESSAGES, EVENTS = WaitingFor.MESSAGES, WaitingFor.EVENTS


@pytest.fixture
def world() -> FakeWorld:
    fakes = FakeWorld()
    fakes.world = replace(fakes.world, waiting_max=PLACES)
    for topic in ("orders", "payments"):
        fakes.topic(topic)
        fakes.group("g", topic=topic)
    return fakes


def pull(world: FakeWorld, topic: str, wait_s: int = 20) -> tuple[int, dict[str, Any]]:
    reply = ask(world, "POST", f"/topics/{topic}/subscriptions/g/pull", {"wait_seconds": wait_s})
    return reply.status, reply.json | reply.headers


def tail(world: FakeWorld, topic: str, wait_s: int = 20) -> tuple[int, dict[str, Any]]:
    reply = ask(world, "GET", f"/topics/{topic}/tail?wait_seconds={wait_s}&kind=lane")
    return reply.status, reply.json | reply.headers


def taken(world: FakeWorld, topic: str) -> dict[str, Any]:
    row = world.store.rows.get(waiting_key(topic), {})
    return {name: value for name, value in row.items() if name.startswith(("pull", "tail"))}


@pytest.fixture
def full(world: FakeWorld) -> Iterator[FakeWorld]:
    """A world in which as many pulls of *orders* wait as may, and nobody else."""
    with ExitStack() as held:
        for _ in range(PLACES):
            held.enter_context(waiting(world.world, "orders", MESSAGES, 20))
        assert sorted(taken(world, "orders")) == [f"pull_{number}" for number in range(PLACES)]
        yield world
    assert taken(world, "orders") == {}


@pytest.mark.parametrize("path", ["orders", "%6frders"])
def test_beyond_the_places_of_its_topic_a_pull_is_turned_away_and_other_topics_and_tails_are_not(
    full: FakeWorld, path: str
) -> None:
    began, known = full.clock.instant, taken(full, "orders")

    status, answer = pull(full, path)
    assert (status, answer["code"], answer["Retry-After"]) == (429, "throttled", "1")
    assert (full.clock.instant, taken(full, "orders")) == (began, known)

    assert pull(full, path, wait_s=0)[0] == 200
    assert pull(full, "payments")[0] == 200
    assert tail(full, path)[0] == 200
    assert full.clock.instant > began


def test_tails_have_places_of_their_own(world: FakeWorld) -> None:
    with ExitStack() as held:
        for _ in range(PLACES):
            held.enter_context(waiting(world.world, "orders", EVENTS, 20))
        assert tail(world, "orders")[0] == 429
        assert tail(world, "orders", wait_s=0)[0] == 200
        assert tail(world, "payments")[0] == 200
        assert pull(world, "orders")[0] == 200
    assert tail(world, "orders")[0] == 200


def test_what_is_there_is_given_without_a_place_and_nothing_is_written_for_it(full: FakeWorld) -> None:
    full.publish("a", topic="orders")
    full.first_round("b", topic="payments")

    for topic in ("orders", "payments"):
        status, answer = pull(full, topic)
        assert (status, len(answer["messages"])) == (200, 1)
    assert waiting_key("payments") not in full.store.rows


def test_a_pull_of_a_paused_group_waits_in_a_place_too(full: FakeWorld) -> None:
    for topic, status in (("orders", 429), ("payments", 200)):
        lanes.pause(full.world, topic, "g")
        assert pull(full, topic)[0] == status
        assert pull(full, topic, wait_s=0)[0] == 200


def test_a_place_in_which_somebody_died_is_free_after_its_time(world: FakeWorld) -> None:
    died = [waiting(world.world, "orders", MESSAGES, 20) for _ in range(PLACES)]
    for each in died:
        each.__enter__()

    world.clock.sleep(20 + LEFT_LATE_S - 1)
    assert pull(world, "orders")[0] == 429
    world.clock.sleep(1)
    assert pull(world, "orders")[0] == 200

    with waiting(world.world, "orders", MESSAGES, 20), waiting(world.world, "orders", MESSAGES, 20):
        known = taken(world, "orders")
        for each in died:
            each.__exit__(None, None, None)
        present = {name for name, until in known.items() if until > world.clock.instant}
        assert present <= taken(world, "orders").keys()
        assert len(present) == 2


class Raced(MemoryStore):
    """Lets somebody else take each place first that is asked for, so many *times*."""

    times = 0

    def write(self, write: Write) -> None:
        if isinstance(write, Update) and write.key.pk.startswith("WAITING#") and write.changes and self.times:
            self.times -= 1
            super().write(write)
        super().write(write)


@pytest.mark.parametrize(("times", "status"), [(0, 200), (PLACES - 1, 200), (PLACES, 429)])
def test_of_two_who_want_one_place_one_gets_it(world: FakeWorld, times: int, status: int) -> None:
    raced = Raced()
    raced.rows, raced.times = world.store.rows, times
    world.world = replace(world.world, store=raced)

    assert pull(world, "orders")[0] == status
    assert len(taken(world, "orders")) == times


def test_a_pull_whose_place_cannot_be_left_answers_with_its_messages(world: FakeWorld, before: Before) -> None:
    def refuse_to_leave(writes: Sequence[Write]) -> None:
        if any(isinstance(write, Update) and write.key.pk.startswith("WAITING#") and write.remove for write in writes):
            raise ThrottledError("the tables are throttled")

    def comes_during_the_wait(*args: Any, **bounds: Any) -> None:
        if bounds["wait_s"]:
            world.first_round("a", topic="orders")

    before.each(world.group_queues, "receive", comes_during_the_wait)
    world.store.before_transact = refuse_to_leave

    status, answer = pull(world, "orders")
    assert (status, len(answer["messages"])) == (200, 1)
    assert [what for what, _ in world.telemetry.faults] == ["a place for waiting"]


def test_the_writes_of_a_wait_are_on_one_row_that_goes_by_itself(world: FakeWorld) -> None:
    seen: list[tuple[Key, Row]] = []
    apply = world.store.write

    def noted(write: Write) -> None:
        apply(write)
        if write.key.pk.startswith("WAITING"):
            seen.append((write.key, dict(world.store.rows[write.key])))

    world.store.write = noted  # type: ignore[method-assign]
    began = world.clock.instant
    assert pull(world, "orders")[0] == 200

    [(key, row), (_, left)] = seen
    assert key == waiting_key("orders")
    until = began + (20 + LEFT_LATE_S) * 1000
    assert (row["pull_1"], row["ttl"]) == (until, until // 1000 + 3_600)
    assert ("pull_1" in left, left["ttl"]) == (False, row["ttl"])


def test_a_place_is_stored_as_it_always_was() -> None:
    free, over = WaitingPlace("t", EVENTS, 0), WaitingPlace("t", MESSAGES, 12, 5_000)
    assert taking_update(free, 9_000).expect == {"tail_0": ABSENT}
    assert (taking_update(over, 9_000).changes, taking_update(over, 9_000).expect) == (
        {"pull_12": 9_000, "ttl": 3_609},
        {"pull_12": 5_000},
    )
    assert (leaving_update(over).remove, leaving_update(over).expect) == (("pull_12",), {"pull_12": 5_000})


def test_too_many_is_told_with_the_number_of_places(full: FakeWorld) -> None:
    with (
        pytest.raises(ThrottledError, match="3 requests already wait for topic orders"),
        waiting(full.world, "orders", MESSAGES, 1),
    ):
        raise AssertionError("nobody waits here")
