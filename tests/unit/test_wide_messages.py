"""A message that matched more than one section holds: each section has a round of its own, and a row of that."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from tagcast.archive.change_records import records_of
from tagcast.archive.record import RecordKind, RowChange
from tagcast.model import Entry, EntryState, Keep, Push, Strategy
from tagcast.operating import messages
from tagcast.operating.explaining import explain
from tagcast.operating.lanes import skip_head
from tagcast.operating.messages import FAILING, list_attempts, list_retained, message_view
from tagcast.ports import Put, Row
from tagcast.queues import Audience, entry_in, entry_text
from tagcast.registry.subscriptions import delete_subscription
from tagcast.rows import stored
from tagcast.rows.keys import message_key, retained_key
from tagcast.rows.listed import UNSENT, unsent_put
from tagcast.rows.message import KEY_BYTES
from tagcast.rows.message_transitions import ROUNDS, ROW_BYTES_MAX, round_writes
from tagcast.rows.state_map import StateMap
from tagcast.rows.values import row_bytes

from tests.fakes.pages import pages
from tests.fakes.queue_records import batch_of
from tests.fakes.wide_topic import topic_with
from tests.fakes.world import OK, FakeWorld
from tests.unit.worlds import ask, row_of, served

NAMES = ("a", "b", "c", "d", "e")


@pytest.fixture
def fake() -> FakeWorld:
    """A topic with five subscriptions that keep no order, of which a section holds two."""
    return wide_world(Strategy.EXPONENTIAL_DECAY_RETRY)


def wide_world(*strategies: Strategy, keep: Keep = Keep.PENDING) -> FakeWorld:
    fake = FakeWorld()
    fake.world = replace(fake.world, section_max=2)
    fake.topic(keep=keep)
    for place, name in enumerate(NAMES):
        fake.subscribe(name, strategy=strategies[place % len(strategies)])
    return fake


def states(fake: FakeWorld, message_id: str) -> dict[str, EntryState]:
    rows = stored.sections(fake.store, row_of(fake, message_id))
    names = stored.names(fake.store, "test1")
    return {names[o]: row.map.entry(o).state for row in rows for o in sorted(row.map.matched)}


def rows_of(fake: FakeWorld, message_id: str) -> dict[str, Row]:
    pk = message_key("test1", message_id).pk
    return {key.sk: row for key, row in fake.store.rows.items() if key.pk == pk}


def test_of_sections_that_come_together_all_but_one_are_given_back_for_others_to_serve(fake: FakeWorld) -> None:
    fake.publish("1")
    _, *others = batch_of(fake.queue.entries)["Records"]

    assert served(fake) == [each["messageId"] for each in others]
    assert fake.queue.given_back == [each["receiptHandle"] for each in others]
    assert fake.pusher.received == {"a": ["1"], "b": ["1"]}


@pytest.fixture
def in_order() -> FakeWorld:
    """The same in an order: sections are served in turn, and what stands behind a message waits for all of them."""
    return wide_world(Strategy.BACKOFF_RETRY)


def pushes(fake: FakeWorld) -> list[tuple[str, str]]:
    return [(push.subscription.name, push.message.draft.body.decode()) for push in fake.pusher.pushes]


def test_the_sections_of_a_message_are_served_in_turn_and_the_next_message_behind_them(in_order: FakeWorld) -> None:
    in_order.publish("1")
    in_order.publish("2")

    assert served(in_order) == []
    made = iter(pushes(in_order))
    sections = [sorted(next(made) for _ in names) for _ in "12" for names in ("ab", "cd", "e")]
    assert sections == [[(name, body) for name in names] for body in "12" for names in ("ab", "cd", "e")]


def test_what_is_not_begun_when_time_is_over_comes_again_in_its_order(in_order: FakeWorld) -> None:
    fake = in_order
    fake.publish("1")
    fake.publish("2")

    def slow(push: Push) -> None:
        if push.subscription.name == "c":
            fake.clock.instant += 3_000

    fake.pusher.before_push = slow
    entries = fake.queue.entries
    late = batch_of(entries)["Records"][2:]

    assert served(fake) == [record["messageId"] for record in late]
    assert fake.queue.given_back == [record["receiptHandle"] for record in late]
    assert {body for _, body in pushes(fake)} == {"1"}
    fake.pusher.before_push = lambda push: None
    assert served(fake, *entries[2:]) == []
    fake.run_workflows(until=fake.clock.instant + 10_000)
    assert fake.pusher.received == {name: ["1", "2"] for name in NAMES}


def test_every_subscriber_gets_a_wide_message_once_for_one_write_a_section(fake: FakeWorld) -> None:
    before = fake.store.writes
    [message_id] = fake.publish("1")
    published = fake.store.writes - before

    fake.deliver()

    assert fake.pusher.received == {name: ["1"] for name in NAMES}
    assert (published, fake.store.writes - before - published) == (1, 3)
    rounds = {f"ROUND#0000{section}#everybody" for section in range(3)}
    assert set(rows_of(fake, message_id)) == {"MSG", *rounds}
    assert states(fake, message_id) == dict.fromkeys(NAMES, EntryState.DELIVERED)
    assert row_of(fake, message_id).has_body, "until the relay was told of the last round"
    fake.relay_ends()
    assert fake.store.writes - before == 1 + 3 + 1, "no section stood in a list"
    after = row_of(fake, message_id)
    assert (after.has_body, after.is_pending, after.map.pending_count) == (False, False, 0)
    assert states(fake, message_id) == dict.fromkeys(NAMES, EntryState.DELIVERED)


def test_a_section_holds_a_thousand_subscribers_for_one_write() -> None:
    fake = topic_with(2_500)
    before = fake.store.writes
    fake.publish("1", topic="wide", tags=("order",))
    assert len(fake.queue.entries) == 3

    for entry in fake.queue.entries:
        assert served(fake, entry) == []
    fake.relay_ends()

    assert fake.store.writes - before == 1 + 3 + 1
    assert fake.pusher.received == {f"subscriber-{number:06d}": ["1"] for number in range(2_500)}


def test_a_message_that_one_section_holds_has_one_row_and_two_writes_as_ever() -> None:
    fake = wide_world(Strategy.EXPONENTIAL_DECAY_RETRY)
    fake.world = replace(fake.world, section_max=5)
    before = fake.store.writes

    [message_id] = fake.first_round("1")

    assert fake.store.writes - before == 2
    assert set(rows_of(fake, message_id)) == {"MSG"}
    assert "bounds" not in rows_of(fake, message_id)["MSG"]


def test_sections_without_an_order_have_groups_of_their_own_and_all_in_order_share_theirs() -> None:
    fake = wide_world(Strategy.BACKOFF_RETRY, Strategy.EXPONENTIAL_DECAY_RETRY)
    [message_id] = fake.publish("1")

    sent = [(entry.section, entry.audience, entry.has_order) for entry in fake.queue.entries]

    in_order, apart = Audience.IN_ORDER, Audience.APART
    assert sent == [
        *((0, in_order, True), (0, apart, False)),
        *((1, in_order, True), (1, apart, False)),
        (2, Audience.EVERYBODY, True),
    ]
    assert len({entry.group for entry in fake.queue.entries if entry.has_order}) == 1
    apart_groups = {entry.group for entry in fake.queue.entries if not entry.has_order}
    assert apart_groups == {f"{message_id}#0", f"{message_id}#1"}
    assert len({entry.deduplication_id for entry in fake.queue.entries}) == 5
    for entry in fake.queue.entries:
        assert entry_in(entry_text(entry), entry.group) == entry
        assert UNSENT.value_of({"pk": "", "sk": "", **unsent_put(entry, 1_000).row}) == entry
    assert len({unsent_put(entry, 1_000).key for entry in fake.queue.entries}) == 5


def test_the_body_stays_while_anybody_is_owed_in_any_section(fake: FakeWorld) -> None:
    fake.fail("d")
    [message_id] = fake.first_round("1")

    fake.relay_ends()
    row = row_of(fake, message_id)
    assert (row.has_body, row.map.pending_count) == (True, 1)
    assert retained_key("test1", message_id, 1) in fake.store.rows
    [listed] = list_retained(fake.world, "test1", 10, None, size=lambda view: 1, size_max=10).items
    assert (listed.message.message_id, set(listed.subscribers), listed.state) == (message_id, {"c", "d"}, "retained")
    assert listed.subscribers["d"].attempts == 1
    assert attempted(fake, message_id) == ["d"]

    fake.pusher.behaviours["d"] = lambda push: OK
    fake.run_workflows(fake.clock.instant + 3_600_000)

    assert fake.pusher.received["d"] == ["1"]
    fake.relay_ends()
    assert not row_of(fake, message_id).has_body
    assert retained_key("test1", message_id, 1) not in fake.store.rows
    assert states(fake, message_id) == dict.fromkeys(NAMES, EntryState.DELIVERED)


def test_a_view_shows_one_section_after_the_other_and_explains_every_entry(fake: FakeWorld) -> None:
    fake.fail("e")
    [message_id] = fake.first_round("1")

    first = message_view(fake.world, "test1", message_id)
    last = message_view(fake.world, "test1", message_id, 2)

    assert (first.state, set(first.subscribers), first.next_section) == ("retained", {"a", "b"}, 1)
    assert (last.state, set(last.subscribers), last.next_section) == ("retained", {"e"}, None)
    assert shown(fake, f"/topics/test1/messages/{message_id}") == [{"a", "b"}, {"c", "d"}, {"e"}]
    assert explain(fake.world, "test1", message_id, "d")["received"] is True
    assert "blocked" in str(explain(fake.world, "test1", message_id, "e")["reason"])


def test_a_wide_message_counts_all_its_entries_and_shows_those_in_one_state_from_every_section(fake: FakeWorld) -> None:
    fake.fail("b", "d", "e")
    [message_id] = fake.publish("1")
    assert message_view(fake.world, "test1", message_id).counts == {EntryState.PENDING: 5}
    fake.deliver()

    first = message_view(fake.world, "test1", message_id)
    failing = message_view(fake.world, "test1", message_id, only=FAILING)

    assert first.counts == {EntryState.DELIVERED: 2, EntryState.BLOCKED: 3}
    assert list(first.subscribers) == ["b", "a"], "who fails comes first"
    assert (list(failing.subscribers), failing.next_section) == (["b", "d", "e"], None)
    assert failing.subscribers["d"].last_outcome == "http 500"
    assert failing.subscribers["d"].filter_version == 4
    assert message_view(fake.world, "test1", message_id, 1, only=FAILING).counts is None
    assert list(message_view(fake.world, "test1", message_id, 1, only=FAILING).subscribers) == ["d", "e"]
    fake.clock.sleep(86_401)
    assert message_view(fake.world, "test1", message_id).counts == {EntryState.DELIVERED: 2, EntryState.EXPIRED: 3}


def test_a_page_of_one_state_has_as_many_sections_as_have_a_page_together(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = wide_world(Strategy.EXPONENTIAL_DECAY_RETRY)
    monkeypatch.setattr(messages, "PAGE_ENTRIES_MAX", 3)
    [message_id] = fake.first_round("1")
    path = f"/topics/test1/messages/{message_id}?only=delivered"
    page = ask(fake, "GET", path).json
    assert (set(page["subscribers"]), page["counts"]) == ({"a", "b"}, {"delivered": 5})
    rest = ask(fake, "GET", f"{path}&cursor={page['next_cursor']}").json
    assert (set(rest["subscribers"]), "next_cursor" in rest) == ({"c", "d", "e"}, False)


def shown(fake: FakeWorld, target: str) -> list[set[str]]:
    """Whose entries the API shows of a message, page by page."""
    found = pages(
        lambda cursor: ask(fake, "GET", f"{target}?cursor={cursor}" if cursor else target).json,
        lambda page: page.get("next_cursor"),
    )
    return [set(page["subscribers"]) for page in found]


def attempted(fake: FakeWorld, message_id: str, page_size: int = 10) -> list[str]:
    """Whose attempts are remembered, page by page."""
    found = pages(lambda cursor: list_attempts(fake.world, "test1", message_id, page_size, cursor))
    return [name for page in found for name, _ in page.items]


@pytest.mark.parametrize("page_size", [1, 2, 10])
def test_attempts_are_listed_section_by_section_whatever_a_page_takes(fake: FakeWorld, page_size: int) -> None:
    fake.fail("a", "c", "d", "e")
    [message_id] = fake.first_round("1")

    assert attempted(fake, message_id, page_size) == ["a", "c", "d", "e"]


def test_whoever_is_told_of_one_section_waits_for_no_other_and_of_one_entry_for_no_other(fake: FakeWorld) -> None:
    fake.fail(*NAMES)
    [message_id] = fake.first_round("1")
    read: list[str] = []

    def note(pk: str, rows: list[Row]) -> None:
        """Note of a pending delivery the ordinal, of other rows their place."""
        read.extend(str(row["pk"]).rpartition(".")[2] if pk.startswith("DUE#") else str(row["sk"]) for row in rows)

    fake.store.after_query = note
    list_attempts(fake.world, "test1", message_id, 10, None)
    assert [each for each in read if each.isdigit()] == ["0", "1"]
    read.clear()
    assert explain(fake.world, "test1", message_id, "d")["delivery"]
    assert {each for each in read if each.isdigit()} == {"3"}
    assert len(list_retained(fake.world, "test1", 2, None, size=lambda view: 1, size_max=10).items) == 2
    assert not [each for each in read if each.startswith("SUB#")], "all subscriptions are too many to ask"
    read.clear()
    assert len(list_retained(fake.world, "test1", 2, None, size=lambda view: 1, size_max=10).items) == 2
    assert not [each for each in read if each.startswith("VERSION#")], "a process reads each name once"


def test_beside_a_section_that_is_sent_again_nothing_ends_that_is_in_its_life(fake: FakeWorld) -> None:
    fake.fail("c")
    [message_id] = fake.publish("1")
    fake.queue.entries = fake.queue.entries[1:2]
    fake.deliver()
    fake.clock.instant += 7 * 3_600_000

    assert fake.sweep().expired == 0
    assert states(fake, message_id)["c"] is EntryState.PENDING


def test_the_search_reads_one_section_at_a_time(fake: FakeWorld) -> None:
    fake.fail(*NAMES)
    fake.first_round("1")
    for name in NAMES[:-1]:
        skip_head(fake.world, "test1", name, "a test")
    fake.clock.sleep(1_200)
    fake.store.most_rows_at_once = 0
    fake.sweep()

    assert fake.store.most_rows_at_once <= len(NAMES), "so many lanes, and fewer rows of a section"


def test_what_is_owed_past_its_life_expires_in_every_section(fake: FakeWorld) -> None:
    fake.fail("a", "e")
    [message_id] = fake.first_round("1")
    fake.workflow.tasks.clear()
    fake.clock.instant += 3 * 86_400_000

    fake.sweep()

    assert Counter(states(fake, message_id).values()) == {EntryState.DELIVERED: 3, EntryState.EXPIRED: 2}
    assert not row_of(fake, message_id).has_body
    assert not [key for key in fake.store.rows if key.pk.startswith(("RETAINED#", "DUE#"))]


def test_what_lies_in_the_queue_of_a_group_is_ended_by_the_search_when_nobody_pulls_it(fake: FakeWorld) -> None:
    fake.group("g")
    [message_id] = fake.first_round("1")
    assert row_of(fake, message_id).has_body
    fake.clock.instant += 3 * 86_400_000

    fake.sweep()

    assert states(fake, message_id)["g"] is EntryState.EXPIRED
    assert not row_of(fake, message_id).has_body


def test_a_kept_wide_message_gets_late_entries_after_everybody_had_it_and_ends_again() -> None:
    fake = wide_world(Strategy.EXPONENTIAL_DECAY_RETRY, keep=Keep.LIFE)
    [message_id] = fake.first_round("1")
    fake.relay_ends()
    assert not row_of(fake, message_id).is_pending

    fake.clock.instant += 1_000
    fake.group("g", start_from=fake.clock.instant - 60_000)
    fake.run_workflows(fake.clock.instant + 600_000)

    assert row_of(fake, message_id).map.pending_count > 0
    assert states(fake, message_id)["g"] is EntryState.PENDING
    assert row_of(fake, message_id).is_pending
    fake.clock.instant += 3 * 86_400_000
    for _ in range(2):
        fake.sweep()
        fake.clock.instant += 7 * 3_600_000
    row = row_of(fake, message_id)
    assert (row.is_pending, row.has_body, states(fake, message_id)["g"]) == (False, False, EntryState.EXPIRED)


def test_a_late_entry_of_a_wide_message_has_the_name_of_its_group() -> None:
    fake = wide_world(Strategy.EXPONENTIAL_DECAY_RETRY, keep=Keep.LIFE)
    [message_id] = fake.first_round("1")
    delete_subscription(fake.world, "test1", "a")
    fake.group("a", start_from=0)
    fake.run_workflows(fake.clock.instant + 600_000)
    last = len(row_of(fake, message_id).bounds) - 1

    assert message_view(fake.world, "test1", message_id, last).subscribers["a"].state is EntryState.PENDING
    [listed] = list_retained(fake.world, "test1", 9, None, size=lambda view: 0, size_max=1).items
    assert "a" in listed.subscribers
    every = message_view(fake.world, "test1", message_id, 0, tuple(EntryState)).subscribers
    assert (every["a"].state, every["a#0"].state) == (EntryState.PENDING, EntryState.DELIVERED)


def test_the_body_of_a_kept_wide_message_goes_after_its_life_and_every_end_stays() -> None:
    fake = wide_world(Strategy.EXPONENTIAL_DECAY_RETRY, keep=Keep.LIFE)
    [message_id] = fake.first_round("1")
    fake.relay_ends()
    assert row_of(fake, message_id).has_body
    fake.clock.instant += 2 * 86_400_000

    assert fake.sweep().expired == 0

    assert states(fake, message_id) == dict.fromkeys(NAMES, EntryState.DELIVERED)
    assert not row_of(fake, message_id).has_body


def test_the_archive_is_told_of_every_end_once_and_nothing_when_rows_go(fake: FakeWorld) -> None:
    fake.fail("d")
    changes: list[RowChange] = []
    seen: dict[str, Row] = {}
    [message_id] = fake.publish("1")

    def look() -> None:
        for sk, row in rows_of(fake, message_id).items():
            if seen.get(sk) != row:
                changes.append(RowChange(seen.get(sk), dict(row), 5))
                seen[sk] = dict(row)

    look()
    fake.deliver()
    look()
    skip_head(fake.world, "test1", "d", "enough")
    look()
    fake.relay_ends()
    look()

    told = [record for change in changes for record in records_of(change, lambda topic: False)]
    ends = [record.fields for record in told if record.kind is RecordKind.DELIVERIES]
    assert Counter(fields["ordinal"] for fields in ends) == dict.fromkeys(range(5), 1)
    assert Counter(fields["state"] for fields in ends) == {"delivered": 4, "cancelled": 1}
    assert len([record for record in told if record.kind is RecordKind.MESSAGES]) == 1
    vanished = [records_of(RowChange(row, None, 9, removed_by_ttl=True), lambda topic: False) for row in seen.values()]
    assert vanished == [()] * len(seen)
    assert {sk.partition("#")[0] for sk in seen} == {"MSG", "ROUND", "END"}


def test_no_row_of_a_section_grows_beyond_its_budget_whatever_receivers_say() -> None:
    fake = wide_world(Strategy.EXPONENTIAL_DECAY_RETRY)
    [message_id] = fake.publish("1")
    row = stored.sections(fake.store, row_of(fake, message_id))[0]
    row = replace(row, map=StateMap.of(range(0, 4_000_000, 4_000)))
    dice = Random(1)
    said = ["".join(chr(dice.randrange(0x4E00, 0x9FFF)) for _ in range(1_000)) for _ in row.map.matched]
    ended = {
        ordinal: Entry(EntryState.DISCARDED, 177, 1_800_000_000_000 + ordinal, outcome)
        for ordinal, outcome in zip(sorted(row.map.matched), said, strict=True)
    }

    [put] = round_writes(row, 1_800_000_000_000, row.audiences, ended, frozenset())

    assert isinstance(put, Put)
    assert 100_000 < row_bytes(put.row) + KEY_BYTES <= ROW_BYTES_MAX
    known = ROUNDS.value_of({"pk": put.key.pk, "sk": put.key.sk, **put.row}).round
    assert known is not None
    assert {(o, e.state, e.attempts, e.last_attempt_at) for o, e in known.entries().items()} == {
        (o, e.state, e.attempts, e.last_attempt_at) for o, e in ended.items()
    }
