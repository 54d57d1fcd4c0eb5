"""The tail: whoever watches a topic is told what happens there; nobody else costs a write."""

import json
import random
from dataclasses import replace
from typing import Any, cast

import pytest
from tagcast.archive.record import Field, RecordKind
from tagcast.archive.tail import EVENTS_PER_S, KNOWN_S
from tagcast.errors import InvalidRequestError, NotFoundError
from tagcast.model import Outcome, Subscription
from tagcast.operating import lanes
from tagcast.operating.subscription_names import ONE_BY_ONE_MAX, subscription_names
from tagcast.operating.tailing import INTEREST_S, LATE_S, ROWS_AT_ONCE, ROWS_MAX, SEEN_MAX, TailPage, TailRequest, tail
from tagcast.ports import Row
from tagcast.registry import subscriptions, topics
from tagcast.rows.tail import EVENTS_MAX, TAIL_ROWS, TAIL_S, Counts, EventKind, TailBatch, TailEvent, batch_put
from tagcast.tables import Write
from tagcast_aws.api.limits import CURSOR_LENGTH_MAX
from tagcast_aws.api.tail import show_events

from tests.fakes.stream import FakeStream
from tests.fakes.wide_topic import topic_with
from tests.fakes.world import FakeWorld
from tests.item_size import ITEM_BYTES_MAX, row_size
from tests.unit.worlds import ask


class Watched:
    """A world, and the archive's function beside it, which is told of its tables' changes in batches."""

    def __init__(self) -> None:
        self.fakes = FakeWorld()
        self.fakes.topic()
        self.fakes.subscribe("A")
        self.stream = FakeStream(self.fakes)

    def happen(self, *bodies: str, **how: Any) -> None:
        """Publish and deliver, of which the stream tells in one batch."""
        self.fakes.publish(*bodies, **how)
        accepted = self.stream.records()
        self.fakes.deliver()
        self.stream.archive.write([*accepted, *self.stream.records()])

    def accept(self, *bodies: str) -> list[str]:
        """Publish, of which the stream tells."""
        ids = self.fakes.publish(*bodies)
        self.stream.pass_on()
        return ids

    def ask(self, **wish: Any) -> TailPage:
        return tail(self.fakes.world, "test1", TailRequest(**wish))

    def tails(self) -> list[Row]:
        return [row for key, row in self.fakes.store.rows.items() if key.pk.startswith("TAIL#")]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def said(told: TailPage) -> list[tuple[str, str, str | None, int | None]]:
    return [(event.kind.value, event.state, name, event.attempts) for event, name in told.events]


def test_while_nobody_watches_nothing_is_written_and_the_batch_costs_one_read_a_second(watched: Watched) -> None:
    store = watched.fakes.store
    watched.fakes.first_round("1")
    records, writes = watched.stream.records(), store.writes
    queries: list[str] = []
    store.after_query = lambda pk, rows: queries.append(pk)
    for _ in range(10):
        watched.stream.archive.write(records)
        watched.fakes.clock.sleep(0.5)

    assert store.writes == writes
    assert queries == ["WATCHED"] * 5


def test_who_watches_is_told_of_messages_deliveries_and_lanes_as_they_happen(watched: Watched) -> None:
    watched.fakes.fail("A")
    first = watched.ask()
    assert said(first) == []

    [sent] = watched.accept("1")
    second = watched.ask(cursor=first.cursor)
    watched.fakes.deliver()
    watched.stream.pass_on()
    third = watched.ask(cursor=second.cursor)
    lanes.skip_head(watched.fakes.world, "test1", "A", "poison")
    watched.stream.pass_on()
    fourth = watched.ask(cursor=third.cursor)

    assert said(second) == [("message", "accepted", None, None)]
    assert second.events[0][0].message_id == sent
    assert sorted(said(third)) == [("delivery", "blocked", "A", 1), ("lane", "blocked", "A", None)]
    assert ("delivery", "cancelled", "A", 1) in said(fourth)
    assert [each.counts for each in (second, third, fourth)] == [Counts(published=1), Counts(failed=1), Counts()]
    assert said(watched.ask(cursor=fourth.cursor)) == []


def test_a_batch_is_one_row_for_each_topic_that_is_watched_and_none_for_the_others(watched: Watched) -> None:
    for name in ("test2", "test3"):
        watched.fakes.topic(name)
        watched.fakes.subscribe("B", topic=name)
    for name in ("test1", "test2"):
        tail(watched.fakes.world, name, TailRequest())
    for name in ("test1", "test2", "test3"):
        watched.fakes.publish("1", "2", topic=name)
    watched.stream.pass_on()

    assert len(watched.tails()) == 2
    assert tail(watched.fakes.world, "test2", TailRequest()).counts == Counts(published=2)
    assert tail(watched.fakes.world, "test3", TailRequest()).counts == Counts()


def test_a_minute_after_the_last_question_nobody_is_told_any_more(watched: Watched) -> None:
    watched.ask()
    watched.fakes.clock.sleep(INTEREST_S + KNOWN_S)
    watched.accept("1")
    assert watched.tails() == []

    watched.ask()
    watched.fakes.clock.sleep(INTEREST_S - 1)
    watched.accept("2")
    assert len(watched.tails()) == 1


def test_a_question_leaves_word_once_in_half_a_minute_and_says_since_when_it_is_told(watched: Watched) -> None:
    began = watched.fakes.clock.now()
    writes = watched.fakes.store.writes
    since = []
    for _ in range(12):
        since.append(watched.ask().since)
        watched.fakes.clock.sleep(10)

    assert watched.fakes.store.writes - writes == 4
    assert set(since[:7]) == {began}
    assert since[-1] == began + 50_000
    watched.fakes.clock.sleep(INTEREST_S)
    assert watched.ask().since == watched.fakes.clock.now()


def test_an_answer_says_since_when_and_until_when_it_counted(watched: Watched) -> None:
    began = watched.fakes.clock.now()
    first = watched.ask()
    watched.fakes.clock.sleep(7)
    second = watched.ask(cursor=first.cursor)

    assert (first.since, first.counted_at) == (began, began)
    assert (second.since, second.counted_at) == (began, began + 7_000)


def test_an_answer_counts_all_that_happened_since_it_says(watched: Watched) -> None:
    clock, began = watched.fakes.clock, watched.ask()
    times = []
    for _ in range(ROWS_MAX + 20):
        clock.sleep(1)
        watched.ask()
        watched.fakes.publish("1")
        times.append(clock.now())
        watched.stream.pass_on()

    for cursor in (began.cursor, None):
        told = watched.ask(cursor=cursor)
        assert told.counts.published == sum(told.since <= each for each in times)

    for _ in range(0, TAIL_S - 10, 20):
        clock.sleep(20)
        watched.ask()
    told = watched.ask(cursor=began.cursor)
    assert told.counts.published == sum(told.since <= each for each in times)


def test_a_question_waits_for_what_it_wishes_and_no_longer_than_it_said(watched: Watched) -> None:
    watched.ask()
    began = watched.fakes.clock.monotonic()
    assert said(watched.ask(wait_s=20)) == []
    assert watched.fakes.clock.monotonic() == began + 20

    watched.happen("1")
    began = watched.fakes.clock.monotonic()
    told = watched.ask(wait_s=20, state="discarded")
    assert watched.fakes.clock.monotonic() == began + 20
    assert (said(told), told.counts) == ([], Counts(1, 1, 0))
    assert said(watched.ask(cursor=told.cursor)) == []
    assert said(watched.ask(wait_s=20, state="delivered")) == [("delivery", "delivered", "A", 1)]
    assert watched.fakes.clock.monotonic() == began + 20


@pytest.mark.parametrize(
    ("wish", "found"),
    [
        ({"kind": EventKind.MESSAGE}, {"accepted"}),
        ({"subscription": "A"}, {"delivered"}),
        ({"state": "unmatched"}, set()),
        ({"kind": EventKind.DELIVERY, "subscription": "A", "state": "delivered"}, {"delivered"}),
        ({"subscription": "B"}, set()),
        ({}, {"accepted", "delivered"}),
    ],
)
def test_events_are_chosen_by_kind_subscription_and_state(
    watched: Watched, wish: dict[str, Any], found: set[str]
) -> None:
    watched.ask()
    watched.happen("1")

    assert {event.state for event, _ in watched.ask(**wish).events} == found


def test_whatever_the_order_of_rows_each_event_is_told_once(watched: Watched) -> None:
    """Rows whose writers are up to five seconds late, and questions in between."""
    chance = random.Random(7)
    topic_id = subscriptions.get_subscription(watched.fakes.world, "test1", "A").topic_id
    clock, began = watched.fakes.clock, watched.fakes.clock.now()
    arrivals = []
    for number in range(300):
        at = began + chance.randrange(60_000)
        event = TailEvent(at, EventKind.MESSAGE, "accepted", f"{number:020d}")
        batch = TailBatch(f"{(at << 22) + number:020d}", (event,), 0, Counts(1))
        arrivals.append((at + chance.randrange(LATE_S * 1000), batch_put(topic_id, batch)))
    cursor: str | None = None
    found: list[str | None] = []
    counts = Counts()
    for arrived_at, write in sorted(arrivals, key=lambda each: each[0]):
        clock.instant = max(clock.instant, arrived_at)
        watched.fakes.store.write(write)
        if chance.random() < 0.4:
            told = watched.ask(cursor=cursor)
            cursor = told.cursor
            counts += told.counts
            found += [event.message_id for event, _ in told.events]
            assert len(cursor) * 4 / 3 < CURSOR_LENGTH_MAX
    found += [event.message_id for event, _ in watched.ask(cursor=cursor).events]

    assert sorted(str(each) for each in found) == [f"{number:020d}" for number in range(300)]


def test_ten_thousand_events_a_second_stay_within_a_row_an_answer_and_a_cursor(watched: Watched) -> None:
    watched.ask()
    watched.fakes.publish("1")
    [record] = watched.stream.records()
    processes = [watched.stream.process() for _ in range(4)]
    cursor, told = None, []
    for _ in range(3):
        for place in range(20):
            clock = watched.fakes.clock
            clock.instant += 50
            said: dict[str, Field] = {"state": "discarded", "attempts": 176, "outcome": chr(1) * 200}
            hostile = {**record.fields, **said, "ordinal": place, "changed_at": 1}
            ended = replace(record, kind=RecordKind.DELIVERIES, fields=hostile)
            processes[place % 4].write([ended] * 500)
        told.append(watched.ask(cursor=cursor))
        cursor = told[-1].cursor
        assert len(cursor) * 4 / 3 < CURSOR_LENGTH_MAX
        assert len(json.dumps(json.dumps(show_events(told[-1])))) < 6_000_000

    assert sum(each.counts.failed for each in told) == 30_000
    assert sum(len(each.events) + each.left_out for each in told) == 30_000
    assert all(len(each.events) <= EVENTS_MAX for each in told)
    rows = watched.tails()
    assert max(map(row_size, rows)) < ITEM_BYTES_MAX
    assert sum(map(row_size, rows)) < 1_000_000
    assert sum(len(TAIL_ROWS.value_of(row).events) for row in rows) <= len(processes) * (EVENTS_MAX + 3 * EVENTS_PER_S)


def test_what_does_not_deflate_is_cut_to_a_row() -> None:
    chance = random.Random(7)
    outcome = "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(200_000))
    events = tuple(
        TailEvent(1, EventKind.DELIVERY, "blocked", "7", 1, 1, outcome[200 * n : 200 * n + 200]) for n in range(1_000)
    )

    put = batch_put("t", TailBatch("7", events, 3, Counts()))

    assert row_size({"pk": put.key.pk, "sk": put.key.sk, **put.row}) < ITEM_BYTES_MAX
    assert cast("int", put.row["left_out"]) > 3


def test_many_rows_at_once_make_a_cursor_that_fits_and_may_begin_at_the_last_row_of_a_page(watched: Watched) -> None:
    def happen(times: int) -> None:
        for _ in range(times):
            watched.accept("1")

    watched.ask()
    happen(SEEN_MAX + 1)
    told = watched.ask()
    assert told.counts.published == SEEN_MAX + 1
    assert len(told.cursor) * 4 / 3 < CURSOR_LENGTH_MAX
    assert watched.ask(cursor=told.cursor).counts == Counts()

    happen(-(SEEN_MAX + 1) % ROWS_AT_ONCE)
    assert watched.ask(cursor=told.cursor).counts == Counts(published=-(SEEN_MAX + 1) % ROWS_AT_ONCE)


def test_what_is_older_than_ten_minutes_is_not_told(watched: Watched) -> None:
    watched.ask()
    watched.accept("1")
    old = watched.ask()
    watched.fakes.clock.sleep(TAIL_S - 1)
    assert len(watched.ask().events) == 1
    assert watched.ask().counts == Counts()
    watched.fakes.clock.sleep(2)
    assert watched.ask().events == ()
    assert watched.ask(cursor=old.cursor).events == ()


def test_who_watches_a_topic_that_is_removed_is_told_so_and_never_of_the_next_of_that_name(watched: Watched) -> None:
    watched.ask()
    watched.accept("1")
    old = watched.ask()
    subscriptions.delete_subscription(watched.fakes.world, "test1", "A")
    topics.delete_topic(watched.fakes.world, "test1")
    with pytest.raises(NotFoundError):
        watched.ask(cursor=old.cursor)

    watched.fakes.topic()
    assert watched.ask().events == ()
    watched.fakes.publish("2")
    watched.fakes.clock.sleep(KNOWN_S)
    watched.stream.pass_on()
    assert said(watched.ask(cursor=old.cursor)) == [("message", "unmatched", None, None)]


def test_a_tail_that_cannot_be_written_costs_the_archive_nothing_and_is_told(watched: Watched) -> None:
    class Broken(type(watched.fakes.store)):  # type: ignore[misc]
        def write(self, write: Write) -> None:
            raise TimeoutError

    watched.ask()
    broken = Broken()
    broken.rows = watched.fakes.store.rows
    watched.stream.archive.store = broken
    watched.accept("1")

    assert [what for what, _ in watched.fakes.telemetry.faults] == ["the tail"]
    assert watched.tails() == []


def test_names_are_those_of_subscriptions_and_of_removed_ones(watched: Watched) -> None:
    for number in range(30):
        watched.fakes.subscribe(f"S{number}")
    watched.ask()
    watched.fakes.pusher.behaviours["A"] = lambda push: Outcome(False, "http 410", gone=True)
    watched.happen("1")
    subscriptions.delete_subscription(watched.fakes.world, "test1", "S7")

    named = {name for event, name in watched.ask().events if event.kind is EventKind.DELIVERY}

    assert named == {"A", *(f"S{number}" for number in range(30))}


def test_no_body_and_no_property_is_in_a_tail(watched: Watched) -> None:
    watched.ask()
    watched.happen("the body", tags=("the tag",))

    for told in ([str(show_events(watched.ask()))], [str(row) for row in watched.tails()]):
        assert "the body" not in str(told)
        assert "the tag" not in str(told)


@pytest.mark.parametrize("cursor", ["", "[]", "7", "[1]", '["x", 2]', "{}", "[null, 1]", "[1, 1e400]", "[" * 1_500])
def test_a_cursor_of_another_list_is_refused(watched: Watched, cursor: str) -> None:
    with pytest.raises(InvalidRequestError):
        watched.ask(cursor=cursor)


def test_a_route_names_every_fault_of_its_question(watched: Watched) -> None:
    query = "wait_seconds=21&max_events=-1&kind=x&subscription=9&state=A&cursor=!"
    answer = ask(watched.fakes, "GET", f"/topics/test1/tail?{query}")

    assert answer.status == 422
    assert set(answer.pointers) == {"#/wait_seconds", "#/max_events", "#/kind", "#/subscription", "#/state", "#/cursor"}


def test_the_names_of_a_large_topic_stay_known_beside_new_names_and_other_topics() -> None:
    fake = topic_with(12_000)
    fake.topic("other")
    wide, other = (fake.subscribe(name, topic=topic) for name, topic in (("new", "wide"), ("B", "other")))

    def rows_read(of: Subscription, *ordinals: int) -> int:
        fake.store.rows_read = 0
        found = subscription_names(fake.world, of.topic, of.topic_id, ordinals)
        assert found.keys() == set(ordinals)
        return fake.store.rows_read

    assert rows_read(wide, *range(ONE_BY_ONE_MAX + 1)) > 12_000
    assert rows_read(other, other.ordinal) == 1
    assert rows_read(wide, *range(100), fake.subscribe("newer", topic="wide").ordinal) == 1
    assert rows_read(wide, *range(12_000)) == 0
