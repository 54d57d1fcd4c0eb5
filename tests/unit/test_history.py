"""The history of a topic: what the archive and the list of retained messages name, newest first, page by page."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tagcast.archive.change_records import records_of
from tagcast.archive.record import RecordKind, RowChange
from tagcast.delivery import publishing
from tagcast.errors import InvalidRequestError, UnavailableError
from tagcast.model import Draft, EntryState, Keep, Subscription
from tagcast.operating.history import History, HistoryFilter, read_history
from tagcast.operating.messages import PAGE_WITHIN_S, MessageState
from tagcast.registry.groups import PUBLISHED_S
from tagcast.registry.subscriptions import delete_subscription, get_subscription
from tagcast.rows import stored

from tests.fakes.calls import Before
from tests.fakes.pages import pages
from tests.fakes.world import FAIL, FakeWorld

DAY_MS = 86_400_000


@pytest.fixture
def fakes(fake: FakeWorld) -> FakeWorld:
    """A world with a topic of which *a* gets all, and *b* only what has the tag b."""
    fake.subscribe("a")
    fake.subscribe("b", "b")
    return fake


def publish(fakes: FakeWorld, *tags: str, topic: str = "test1", **properties: str) -> str:
    fakes.clock.sleep(0.01)
    [accepted] = publishing.publish(fakes.world, topic, [Draft(b"x", tags=tags, properties=properties)])
    return accepted.message_id


def archive(fakes: FakeWorld) -> None:
    """Deliver what was published; then let the archive get all messages that no file of it has yet, in one file."""
    fakes.deliver()
    known = b"".join(line for _, lines in fakes.message_archive.came.values() for line in lines)
    rows = [row for key, row in fakes.store.rows.items() if key.sk == "MSG" and row["message_id"].encode() not in known]
    records = [record for row in rows for record in records_of(RowChange(None, row, fakes.clock.now()), bool)]
    lines = [record.line() for record in records if record.kind is RecordKind.MESSAGES]
    fakes.message_archive.put(f"raw/messages/{len(fakes.message_archive.came)}.gz", fakes.clock.now(), lines)


def asked(fakes: FakeWorld, limit: int = 100, cursor: str | None = None, **wanted: Any) -> History:
    since = wanted.pop("since", fakes.clock.now() - DAY_MS)
    return read_history(fakes.world, "test1", HistoryFilter(since, **wanted), limit, cursor)


def ids(page: History) -> list[str]:
    return [view.message.message_id for view in page.messages]


def walked(fakes: FakeWorld, limit: int, **wanted: Any) -> list[str]:
    """All pages, one after the other; none has more than it may."""
    found = pages(lambda cursor: asked(fakes, limit, cursor, **wanted))
    assert all(len(page.messages) <= limit for page in found)
    return [each for page in found for each in ids(page)]


def sub(fakes: FakeWorld, name: str) -> Subscription:
    return get_subscription(fakes.world, "test1", name)


def test_what_was_delivered_and_deleted_is_listed_newest_first(fakes: FakeWorld) -> None:
    sent = [publish(fakes) for _ in range(3)]
    archive(fakes)

    page = asked(fakes)

    assert (ids(page), page.cursor) == (sent[::-1], None)
    assert {view.state for view in page.messages} == {MessageState.DELETED}
    assert [view.counts for view in page.messages] == [{EntryState.DELIVERED: 1}] * 3
    assert page.archive_until == page.messages[0].message.accepted_at


def test_a_subscription_created_again_does_not_have_the_deliveries_of_its_predecessor(fakes: FakeWorld) -> None:
    delivered = publish(fakes)
    archive(fakes)
    delete_subscription(fakes.world, "test1", "a")
    fakes.group("a", start_from=0)

    assert ids(asked(fakes, subscription=sub(fakes, "a"), state=EntryState.DELIVERED)) == []
    assert ids(asked(fakes, subscription=sub(fakes, "a"))) == []
    assert ids(asked(fakes)) == [delivered]


def test_what_is_not_archived_yet_is_listed_while_it_is_owed(fakes: FakeWorld) -> None:
    sent = [publish(fakes) for _ in range(2)]
    archive(fakes)
    fakes.pusher.behaviours["a"] = lambda push: FAIL
    younger = [publish(fakes) for _ in range(2)]
    fakes.deliver()

    assert ids(asked(fakes)) == [*younger[::-1], *sent[::-1]]
    archive(fakes)
    assert ids(asked(fakes)) == [*younger[::-1], *sent[::-1]]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_have_each_message_once(fakes: FakeWorld, limit: int) -> None:
    sent = []
    for _ in range(4):
        sent += [publish(fakes, topic="test1") for _ in range(5)]
        archive(fakes)
        fakes.clock.sleep(40_000)
    fakes.pusher.behaviours["a"] = lambda push: FAIL
    sent += [publish(fakes) for _ in range(5)]
    fakes.deliver()

    assert walked(fakes, limit, since=fakes.clock.now() - 3 * DAY_MS) == sent[::-1]


def test_a_page_goes_on_where_the_last_one_ended_though_more_was_archived(fakes: FakeWorld) -> None:
    sent = [publish(fakes) for _ in range(4)]
    archive(fakes)
    fakes.pusher.behaviours["a"] = lambda push: FAIL
    younger = [publish(fakes) for _ in range(4)]
    fakes.deliver()
    first = asked(fakes, 3)

    archive(fakes)
    publish(fakes)

    assert ids(first) == younger[:0:-1]
    rest = asked(fakes, 100, first.cursor)
    assert ids(rest) == [younger[0], *sent[::-1]]


def test_a_change_that_the_stream_brought_twice_is_listed_once_in_its_file(fakes: FakeWorld) -> None:
    sent = publish(fakes)
    archive(fakes)
    at, lines = fakes.message_archive.came["raw/messages/0.gz"]
    fakes.message_archive.came["raw/messages/0.gz"] = at, lines * 2

    assert ids(asked(fakes)) == [sent]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (lambda fakes: {"tag": "b"}, [1, 3]),
        (lambda fakes: {"property": ("customer", "42")}, [2, 3]),
        (lambda fakes: {"subscription": sub(fakes, "b")}, [1, 3]),
        (lambda fakes: {"state": EntryState.DELIVERED}, [0, 1, 2]),
        (lambda fakes: {"state": EntryState.BLOCKED}, [1, 3]),
        (lambda fakes: {"state": EntryState.DELIVERED, "subscription": sub(fakes, "b")}, []),
        (lambda fakes: {"state": EntryState.DELIVERED, "tag": "b"}, [1]),
        (lambda fakes: {"state": MessageState.UNMATCHED}, []),
        (lambda fakes: {"tag": 'quo"te'}, [2]),
        (lambda fakes: {"property": ("name", "Zoë")}, [0]),
    ],
)
@pytest.mark.parametrize("is_archived", [True, False])
def test_a_history_is_narrowed(
    fakes: FakeWorld, wanted: Callable[[FakeWorld], dict[str, Any]], expected: list[int], is_archived: bool
) -> None:
    fakes.pusher.behaviours["b"] = lambda push: FAIL
    sent = [
        publish(fakes, "c", name="Zoë"), publish(fakes, "b", customer="4"), publish(fakes, 'quo"te', customer="42"),
    ]  # fmt: skip
    fakes.deliver()
    fakes.pusher.behaviours["a"] = lambda push: FAIL
    sent.append(publish(fakes, "b", customer="42"))
    fakes.deliver()
    if is_archived:
        archive(fakes)
    else:  # The table lists what is retained.
        expected = [each for each in expected if each in (1, 3)]

    page = asked(fakes, **wanted(fakes))
    assert ids(page) == [sent[each] for each in expected[::-1]]
    assert (page.archive_until is not None) == is_archived


def test_unmatched_messages_are_found_by_that(fakes: FakeWorld) -> None:
    fakes.topic("lonely")
    sent = publish(fakes, topic="lonely")
    archive(fakes)

    found = read_history(fakes.world, "lonely", HistoryFilter(0, state=MessageState.UNMATCHED), 9, None)
    assert ids(found) == [sent]


def test_other_topics_and_earlier_messages_are_left_out(fakes: FakeWorld) -> None:
    fakes.topic("test2")
    publish(fakes)
    fakes.clock.sleep(60)
    since = fakes.clock.now()
    sent = publish(fakes)
    publish(fakes, topic="test2")
    archive(fakes)

    assert ids(asked(fakes, since=since)) == [sent]


@pytest.mark.parametrize("quiet_s", [1, 400, 86_400, 3 * 86_400 - 400])
def test_a_quiet_archive_says_how_far_it_has_come(fakes: FakeWorld, quiet_s: int) -> None:
    publish(fakes)
    archive(fakes)
    archived_at = asked(fakes).archive_until
    fakes.clock.sleep(quiet_s)
    fakes.pusher.behaviours["a"] = lambda push: FAIL
    since = fakes.clock.now()
    younger = publish(fakes)
    fakes.deliver()

    page = asked(fakes, since=since)

    assert archived_at is not None
    assert (ids(page), page.archive_until, page.cursor) == ([younger], archived_at, None)


def test_a_page_ends_in_time_and_the_next_goes_on(fakes: FakeWorld, before: Before) -> None:
    sent = []
    for _ in range(6):
        sent.append(publish(fakes))
        archive(fakes)
        fakes.clock.sleep(1)
    before.each(fakes.message_archive, "lines", lambda name: fakes.clock.sleep(PAGE_WITHIN_S / 2))
    assert len(ids(asked(fakes))) < 6
    assert walked(fakes, 100) == sent[::-1]


def test_a_message_that_was_archived_late_is_no_fault_after_its_erasure(fakes: FakeWorld) -> None:
    sent = [publish(fakes, "t") for _ in range(2)]
    archive(fakes)
    [(_, lines)] = fakes.message_archive.came.values()
    erased = {name: value for name, value in json.loads(lines[0]).items() if name not in ("tags", "body")}
    lines[0] = json.dumps(erased, separators=(",", ":")).encode()

    assert ids(asked(fakes)) == sent[::-1]
    assert ids(asked(fakes, tag="t")) == sent[1:]


def test_a_receipt_that_is_gone_is_left_out(fakes: FakeWorld) -> None:
    gone, sent = publish(fakes), publish(fakes)
    archive(fakes)
    [key] = [key for key in fakes.store.rows if key.sk == "MSG" and key.pk.endswith(gone)]
    del fakes.store.rows[key]

    assert ids(asked(fakes)) == [sent]


def test_a_late_entry_of_a_group_is_found_by_its_subscription(fakes: FakeWorld) -> None:
    fakes.topic(keep=Keep.LIFE)
    old, other = publish(fakes, "b"), publish(fakes, "c")
    fakes.deliver()
    wanted = {"kind": "tags", "tags": ["b"]}
    fakes.group("late", filter=wanted, start_from=0)
    fakes.run_for(2 * PUBLISHED_S)
    archive(fakes)
    assert ids(asked(fakes, subscription=sub(fakes, "late"))) == [old]
    assert ids(asked(fakes, subscription=sub(fakes, "late"), state=EntryState.PENDING)) == [old]
    assert sorted(ids(asked(fakes))) == sorted([old, other])

    fakes.group("late", filter=wanted)  # Only its creation reads where it starts.
    assert ids(asked(fakes, subscription=sub(fakes, "late"))) == [old]


def test_a_wide_message_is_found_in_each_section_with_its_counts(fakes: FakeWorld) -> None:
    wide = replace(fakes.world, section_max=1)
    fakes.subscribe("c")
    [accepted] = publishing.publish(wide, "test1", [Draft(b"x", tags=("b",))])
    archive(fakes)

    for subscription in (None, *(sub(fakes, name) for name in "abc")):
        [view] = asked(fakes, subscription=subscription, state=EntryState.DELIVERED).messages
        assert (view.message.message_id, view.counts) == (accepted.message_id, {EntryState.DELIVERED: 3})


def test_a_page_ends_in_time_between_two_messages_of_one_file(fakes: FakeWorld, before: Before) -> None:
    sent = [publish(fakes) for _ in range(10)]
    archive(fakes)
    before.each(stored, "with_ends", lambda *_: fakes.clock.sleep(PAGE_WITHIN_S / 4))

    assert len(ids(asked(fakes))) < 6
    assert walked(fakes, 100) == sent[::-1]


def test_a_page_ends_with_the_message_that_fills_it(fakes: FakeWorld) -> None:
    sent = [publish(fakes) for _ in range(3)]
    archive(fakes)

    wanted = HistoryFilter(fakes.clock.now() - DAY_MS)
    first = read_history(fakes.world, "test1", wanted, 100, None, size=lambda view: 40, size_max=80)
    rest = read_history(fakes.world, "test1", wanted, 100, first.cursor, size=lambda view: 40, size_max=80)

    assert (ids(first), ids(rest), rest.cursor) == (sent[:0:-1], sent[:1], None)


def test_the_first_messages_of_a_day_are_found_in_the_last_file_of_the_day_before(fakes: FakeWorld) -> None:
    midnight = fakes.clock.now() // DAY_MS * DAY_MS + DAY_MS
    fakes.clock.sleep((midnight - fakes.clock.now()) / 1000)
    sent = publish(fakes)
    fakes.deliver()
    fakes.clock.sleep(60)
    archive(fakes)
    fakes.message_archive.folders["raw/messages/0.gz"] = midnight - DAY_MS

    assert ids(asked(fakes, since=midnight)) == [sent]


def test_a_cursor_of_a_far_day_asks_for_no_more_days(fakes: FakeWorld, before: Before) -> None:
    days = list[int]()
    before.each(fakes.message_archive, "files", days.append)

    assert ids(asked(fakes, cursor=f"- {'0' * 20} {'9' * 15} x ~")) == []
    assert len(days) <= 2


@pytest.mark.parametrize("cursor", ["", "x", "- 1 2 3 4", "~ 0 0 - ~"])
def test_a_cursor_of_something_else_is_refused(fakes: FakeWorld, cursor: str) -> None:
    with pytest.raises(InvalidRequestError):
        asked(fakes, cursor=cursor)


def test_an_archive_that_is_away_is_said(fakes: FakeWorld) -> None:
    fakes.message_archive.away = True
    with pytest.raises(UnavailableError):
        asked(fakes)
