"""What every store promises, asked of the one in memory and of DynamoDB as the box plays it."""

from __future__ import annotations

from typing import Any

import pytest
from tagcast.errors import ConditionLostError
from tagcast.ports import ABSENT, Delete, Key, Page, Put, Row, Store, Table, Update, Write
from tagcast.rows.listed import kept_id
from tagcast.tables import Check, Value
from tagcast_aws.store.dynamodb import DynamoStore

from tests.aws.account import furnished
from tests.aws.box import ADMINISTRATOR
from tests.aws.limits import STALE_MS
from tests.aws.solo_timeline import SoloTimeline
from tests.aws.stack import deployed
from tests.fakes.memory_store import MemoryStore
from tests.fakes.pages import pages

ROW = Key(Table.MESSAGES, "MSG#t#1", "MSG")
OTHER = Key(Table.REGISTRY, "TOPIC#t", "TOPIC")


@pytest.fixture(params=["memory", "box"])
def store(request: pytest.FixtureRequest) -> Store:
    return MemoryStore() if request.param == "memory" else _store_in_the_box()


class LaterStore(DynamoStore):
    """The store on the box. Reads without consistency begin when every replica has the latest writes."""

    timeline: SoloTimeline

    def lanes_to_wake(self, *place: Any, **bounds: Any) -> list[Row]:
        self.timeline.spend(STALE_MS + 1)
        return super().lanes_to_wake(*place, **bounds)

    def search(self, **bounds: Any) -> Page[Row]:
        self.timeline.spend(STALE_MS + 1)
        return super().search(**bounds)


def _store_in_the_box() -> Store:
    stack, timeline = deployed(), SoloTimeline()
    box = furnished(stack, timeline)
    names = {Table.REGISTRY: stack.name_of("RegistryTable"), Table.MESSAGES: stack.name_of("MessagesTable")}
    store = LaterStore(box.client("dynamodb", ADMINISTRATOR), names)
    store.timeline = timeline
    return store


def read(store: Store, key: Key) -> Row:
    row = store.get(key)
    assert row is not None
    return row


def test_returns_every_kind_of_value_as_it_was_written(store: Store) -> None:
    row: dict[str, Value] = {"text": "a", "number": 3, "bytes": b"\x00\xff", "list": ["x", "y"], "map": {"k": "v"}}

    store.write(Put(ROW, row))

    assert store.get(ROW) == {"pk": ROW.pk, "sk": ROW.sk, **row}


def test_a_row_that_is_not_there_is_none(store: Store) -> None:
    assert store.get(ROW) is None


def test_a_put_on_condition_of_absence_succeeds_once(store: Store) -> None:
    store.write(Put(ROW, {"n": 1}, {"pk": ABSENT}))

    with pytest.raises(ConditionLostError):
        store.write(Put(ROW, {"n": 2}, {"pk": ABSENT}))

    assert read(store, ROW)["n"] == 1


def test_an_update_sets_and_removes_and_keeps_the_rest(store: Store) -> None:
    store.write(Put(ROW, {"a": 1, "b": 2, "c": 3}))

    store.write(Update(ROW, {"a": 9}, ("b",), {"c": 3}))

    assert store.get(ROW) == {"pk": ROW.pk, "sk": ROW.sk, "a": 9, "c": 3}


def test_an_update_whose_condition_is_lost_changes_nothing(store: Store) -> None:
    store.write(Put(ROW, {"a": 1}))

    with pytest.raises(ConditionLostError):
        store.write(Update(ROW, {"a": 2}, (), {"a": 5}))

    assert read(store, ROW)["a"] == 1


def test_of_many_updates_each_is_applied_or_not_by_itself(store: Store) -> None:
    keys = [Key(Table.MESSAGES, f"MSG#t#{number}", "MSG") for number in range(4)]
    for key in keys[:3]:
        store.write(Put(key, {"n": 1, "b": b"x", "c": 1}))

    done = store.update_each([Update(key, {"n": 2}, ("c",), {"n": 7 if key is keys[1] else 1}) for key in keys])

    assert done == [True, False, True, False]
    assert [dict(read(store, key)) | {"pk": "", "sk": ""} for key in keys[:3]] == [
        {"pk": "", "sk": "", "n": 2, "b": b"x"},
        {"pk": "", "sk": "", "n": 1, "b": b"x", "c": 1},
        {"pk": "", "sk": "", "n": 2, "b": b"x"},
    ]
    assert store.get(keys[3]) is None


def test_an_update_adds_to_numbers_from_zero_and_beside_what_it_sets(store: Store) -> None:
    store.write(Update(ROW, {}, add={"n": 2}))
    store.write(Update(ROW, {"a": 1}, add={"n": 3, "m": 1}))

    assert store.get(ROW) == {"pk": ROW.pk, "sk": ROW.sk, "a": 1, "n": 5, "m": 1}
    with pytest.raises(ConditionLostError):
        store.write(Update(ROW, {}, add={"n": 1}, expect={"a": 2}))
    assert read(store, ROW)["n"] == 5


def test_removing_what_is_not_there_succeeds_without_a_condition_and_fails_with_one(store: Store) -> None:
    store.write(Delete(ROW))

    with pytest.raises(ConditionLostError):
        store.write(Delete(ROW, {"n": 1}))


@pytest.mark.parametrize("lost", [Check(OTHER, {"n": 2}), Delete(OTHER, {"n": 2}), Put(OTHER, {}, {"pk": ABSENT})])
def test_a_transaction_over_both_tables_is_applied_whole_or_not_at_all(store: Store, lost: Write) -> None:
    store.write(Put(OTHER, {"n": 1}))

    with pytest.raises(ConditionLostError):
        store.transact((Put(ROW, {"n": 1}), lost))

    assert store.get(ROW) is None
    store.transact((Put(ROW, {"n": 1}), Check(OTHER, {"n": 1})))
    assert read(store, ROW)["n"] == 1


def test_a_query_is_ordered_bounded_and_limited(store: Store) -> None:
    for sk in ("c", "a", "d", "b"):
        store.write(Put(Key(Table.MESSAGES, "p", sk), {}))
    store.write(Put(Key(Table.MESSAGES, "q", "b"), {}))

    assert [row["sk"] for row in store.query(Table.MESSAGES, "p")] == ["a", "b", "c", "d"]
    assert [row["sk"] for row in store.query(Table.MESSAGES, "p", sk_from="b", sk_to="c")] == ["b", "c"]
    assert [row["sk"] for row in store.query(Table.MESSAGES, "p", limit=2)] == ["a", "b"]


def test_many_rows_are_read_at_once_and_missing_ones_left_out(store: Store) -> None:
    store.write(Put(ROW, {"n": 1}))
    store.write(Put(OTHER, {"n": 2}))
    missing = Key(Table.MESSAGES, "MSG#t#2", "MSG")

    found = store.get_many((ROW, missing, OTHER))

    assert {key: row["n"] for key, row in found.items()} == {ROW: 1, OTHER: 2}


def test_lanes_that_sleep_are_not_to_be_woken_and_the_earliest_comes_first(store: Store) -> None:
    for sk, wake_at in (("a", 300), ("b", 100), ("c", 200)):
        store.write(Put(Key(Table.MESSAGES, "LANES#t", sk), {"wake_shard": "1", "wake_at": wake_at}))
    store.write(Put(Key(Table.MESSAGES, "LANES#t", "asleep"), {}))
    store.write(Put(Key(Table.MESSAGES, "LANES#t", "other"), {"wake_shard": "2", "wake_at": 1}))

    assert [row["sk"] for row in store.lanes_to_wake(1, 10)] == ["b", "c", "a"]
    assert [row["sk"] for row in store.lanes_to_wake(1, 1)] == ["b"]


def test_lanes_to_wake_are_read_page_by_page_also_those_of_one_instant(store: Store) -> None:
    for sk in "abcdefg":
        store.write(Put(Key(Table.MESSAGES, "LANES#t", sk), {"wake_shard": "1", "wake_at": 100 if sk < "f" else 200}))

    pages, after = [], None
    while page := store.lanes_to_wake(1, 2, after=after):
        pages.append([row["sk"] for row in page])
        after = page[-1]

    assert sorted(str(sk) for page in pages for sk in page) == list("abcdefg")
    assert {sk for page in pages[-2:] for sk in page} >= {"f", "g"}


def message(number: int, **attributes: Value) -> Put:
    message_id = f"{number:020d}"
    row: dict[str, Value] = {"topic": "t", "message_id": message_id, "pending": 1, "round": "open", "body": b"secret"}
    return Put(Key(Table.MESSAGES, f"MSG#t#{message_id}", "MSG"), {**row, **attributes})


def test_a_search_finds_open_rounds_and_ended_lives_and_shows_no_bodies(store: Store) -> None:
    for write in (
        message(1, accepted_at=99, expires_at=500, ordering_key="k"),
        message(2, accepted_at=100, expires_at=500),
        message(3, accepted_at=99, expires_at=500, round="done"),
        message(4, accepted_at=10, expires_at=49, round="done"),
        message(5, accepted_at=10, expires_at=50, round="done"),
        message(6, accepted_at=10, expires_at=20, pending=0),
        message(7, accepted_at=10, expires_at=49, pending=0, round="done", kept=1),
        message(8, accepted_at=10, expires_at=50, pending=0, round="done", kept=1),
        Put(Key(Table.MESSAGES, "DUE#s", "1"), {"pending": 1, "expires_at": 1, "round": "open", "accepted_at": 1}),
    ):
        store.write(write)

    found = pages(lambda cursor: store.search(open_before=100, over_before=50, cursor=cursor))

    shown = sorted((row for page in found for row in page.items), key=lambda row: str(row["message_id"]))
    assert [int(str(row["message_id"])) for row in shown] == [1, 4, 7]
    assert shown[0] == {
        "pk": f"MSG#t#{1:020d}",
        "sk": "MSG",
        "topic": "t",
        "message_id": f"{1:020d}",
        "ordering_key": "k",
        "round": "open",
        "expires_at": 500,
    }


def test_a_search_goes_on_behind_its_cursor(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fakes.memory_store.SEARCH_PAGE", 2)
    for number in range(7):  # DynamoDB's page is a megabyte.
        store.write(message(number, accepted_at=1, expires_at=500, body=b"x" * 390_000))

    found = pages(lambda cursor: store.search(open_before=2, over_before=0, cursor=cursor))

    assert sorted(str(row["message_id"]) for page in found for row in page.items) == [f"{n:020d}" for n in range(7)]
    assert len(found) > 1


def kept_ids(store: Store, **bounds: int) -> tuple[list[int], int]:
    """What is kept of the topic ``t``, and how many pages that took."""
    asked = {"accepted_from": 10, "before_version": 5, "alive_at": 100, **bounds}
    found = pages(lambda cursor: store.find_kept("t", **asked, cursor=cursor))
    return sorted(int(kept_id(row)) for page in found for row in page.items), len(found)


def test_what_is_kept_has_a_body_lives_is_as_young_as_asked_for_and_of_a_version_before(store: Store) -> None:
    alike: dict[str, Value] = {"accepted_at": 10, "expires_at": 101, "subscriptions_version": 4}
    for write in (
        message(1, **alike),
        message(2, **{**alike, "accepted_at": 9}),
        message(3, **{**alike, "expires_at": 100}),
        message(4, **{**alike, "subscriptions_version": 5}),
        message(5, **alike, replay_of="1"),
        message(6, **alike, pending=0),
        Put(Key(Table.MESSAGES, "MSG#t#8", "MSG"), {**alike, "topic": "t", "message_id": "8", "deflated": b"x"}),
        Put(Key(Table.MESSAGES, "MSG#t#7", "MSG"), {**alike, "topic": "t", "message_id": "7"}),
        Put(Key(Table.MESSAGES, "MSG#t2#8", "MSG"), {**alike, "topic": "t2", "message_id": "8", "body": b"x"}),
    ):
        store.write(write)

    assert kept_ids(store)[0] == [1, 6, 8]
    assert kept_ids(store, accepted_from=11)[0] == []


def test_a_look_for_what_is_kept_goes_on_behind_its_cursor(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tagcast_aws.store.dynamodb.KEPT_PAGE", 3)
    if isinstance(store, MemoryStore):
        store.kept_page = 3
    for number in range(7):
        store.write(message(number, accepted_at=10, expires_at=101, subscriptions_version=1))

    found, count = kept_ids(store)

    assert found == list(range(7))
    assert count >= 3
