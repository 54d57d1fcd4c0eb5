"""What is written when entries end: the map under its version, and the list of what is retained."""

from __future__ import annotations

from functools import partial

import pytest
from tagcast.delivery.ending import Conflict, Ended, Ending, NotOwed, end_planned, write_all
from tagcast.errors import ConditionLostError
from tagcast.model import Draft, Entry, EntryState, Message
from tagcast.ports import Delete, Key, Put, Row, Table, Update, Write
from tagcast.rows import stored
from tagcast.rows.message import MessageRow, map_attributes, message_row
from tagcast.rows.message_writes import map_writes
from tagcast.state_map import StateMap

from tests.fakes.memory_store import MemoryStore
from tests.fakes.world import FakeWorld

OVER = Entry(EntryState.DELIVERED, 1, 10_030)
ACCEPTED = MessageRow(
    Message("t", "m", Draft(b"x"), 10_000, 70_500), StateMap(frozenset((1, 2)), frozenset((1, 2))), 7, 1
)
RETAINED = Key(Table.MESSAGES, "RETAINED#t", "m")
MESSAGE = Key(Table.MESSAGES, "MSG#t#m", "MSG")


def removed(after: MessageRow) -> tuple[str, ...]:
    return () if after.map.pending else ("owed", "body", "deflated")


def written(before: MessageRow, after: MessageRow) -> Update:
    return Update(
        MESSAGE,
        map_attributes(after),
        removed(after),
        {"version": before.version},
    )


def test_a_closed_round_that_owes_is_listed_as_retained_with_its_whole_life() -> None:
    after = ACCEPTED.settled({1: OVER}, round_at=10_000)

    listed = Put(RETAINED, {"expires_at": 70_500, "accepted_at": 10_000, "ttl": 70 + 3 * 86_400})
    assert map_writes(ACCEPTED, after) == (written(ACCEPTED, after), listed)


def test_a_listed_message_is_not_listed_again() -> None:
    row = MessageRow(ACCEPTED.message, StateMap.of([1, 2, 3]), 7, 1).settled({1: OVER}, round_at=10_000)

    after = row.settled({2: OVER})

    assert map_writes(row, after) == (written(row, after),)


def test_the_last_entry_takes_the_message_off_the_list() -> None:
    before = ACCEPTED.settled({1: OVER}, round_at=10_000)

    after = before.settled({2: OVER})

    assert map_writes(before, after) == (written(before, after), Delete(RETAINED))


def test_a_message_that_is_over_with_its_round_was_never_listed() -> None:
    after = ACCEPTED.settled({1: OVER, 2: OVER}, round_at=10_000)

    assert map_writes(ACCEPTED, after) == (written(ACCEPTED, after),)


def test_an_entry_that_ends_in_an_open_round_lists_nothing() -> None:
    after = ACCEPTED.settled({1: OVER})

    assert map_writes(ACCEPTED, after) == (written(ACCEPTED, after),)


class CountingStore(MemoryStore):
    """Remembers how many rows each request wrote; 1 is a plain write."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, int]] = []

    def write(self, write: object) -> None:
        self.requests.append(("write", 1))
        super().transact((write,))  # type: ignore[arg-type]

    def transact(self, writes: object) -> None:
        self.requests.append(("transact", len(writes)))  # type: ignore[arg-type]
        super().transact(writes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("entries", "request_"), [({1: OVER, 2: OVER}, ("write", 1)), ({1: OVER}, ("transact", 2))])
def test_a_map_alone_is_a_plain_write_and_never_the_price_of_a_transaction(
    entries: dict[int, Entry], request_: tuple[str, int]
) -> None:
    fake = FakeWorld(store=CountingStore())
    fake.store.rows[MESSAGE] = {"version": 1}

    write_all(fake.world.store, map_writes(ACCEPTED, ACCEPTED.settled(entries, round_at=10_000)))

    assert isinstance(fake.store, CountingStore)
    assert fake.store.requests == [request_]
    assert fake.store.rows[MESSAGE]["version"] == 2


class Overtaken(MemoryStore):
    """Loses the condition of the first *losses* writes: somebody else was faster."""

    def __init__(self, losses: int) -> None:
        super().__init__()
        self.losses = losses
        self.calls: list[str] = []

    def get(self, key: Key) -> Row | None:
        self.calls.append("get")
        return super().get(key)

    def write(self, write: Write) -> None:
        self.calls.append("write")
        if self.losses:
            self.losses -= 1
            raise ConditionLostError
        super().write(write)


def all_that_is_owed(before: MessageRow) -> Ending | None:
    return Ending(dict.fromkeys(before.map.owed, OVER), round_at=10_000) if before.map.owed else None


def overtaken(losses: int) -> Overtaken:
    store = Overtaken(losses)
    store.rows[MESSAGE] = dict(message_row(ACCEPTED))
    return store


def test_what_was_read_already_is_not_read_again() -> None:
    store = overtaken(losses=0)

    result = end_planned(store, partial(stored.message, store, "t", "m"), all_that_is_owed, ACCEPTED)

    assert result == Ended(ACCEPTED.settled({1: OVER, 2: OVER}, round_at=10_000), entries=2)
    assert store.calls == ["write"]


def test_a_lost_condition_comes_back_with_what_was_read() -> None:
    store = overtaken(losses=1)

    result = end_planned(store, partial(stored.message, store, "t", "m"), all_that_is_owed)

    assert isinstance(result, Conflict)
    assert result.before == ACCEPTED
    assert store.calls == ["get", "write"]


@pytest.mark.parametrize("message", [("t", "m"), ("t", "gone")])
def test_what_is_not_owed_any_more_is_not_written(message: tuple[str, str]) -> None:
    store = overtaken(losses=0)
    ended = ACCEPTED.settled({1: OVER, 2: OVER}, round_at=10_000)
    store.rows[MESSAGE] = {**message_row(ACCEPTED), **map_attributes(ended)}
    del store.rows[MESSAGE]["owed"], store.rows[MESSAGE]["body"]

    result = end_planned(store, partial(stored.message, store, *message), all_that_is_owed)

    assert isinstance(result, NotOwed)
    assert (result.found is None) == (message[1] == "gone")
    assert store.calls == ["get"]
