"""What is written when deliveries end: a round, an end, and that a message is let go, each on its own condition."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from tagcast.delivery.ending import complete, end_alone, write_all
from tagcast.errors import ConditionLostError
from tagcast.model import Draft, Entry, EntryState, Message
from tagcast.ports import Key, Put, Row, Table, Update, Write
from tagcast.queues import Audience
from tagcast.rows.message import MessageRow, bounds_of
from tagcast.rows.message_transitions import accepted_put, completion, end_puts, end_writes, late_writes, round_writes
from tagcast.rows.state_map import AddedLater, StateMap
from tagcast.rows.stored import sections, with_ends

from tests.fakes.memory_store import MemoryStore
from tests.fakes.whole_message import whole_message

OVER = Entry(EntryState.DELIVERED, 1, 10_030)
ALL = (Audience.EVERYBODY,)
RETAINED = Put(
    Key(Table.MESSAGES, "RETAINED#t", "m"), {"expires_at": 70_500, "accepted_at": 10_000, "ttl": 70 + 3 * 86_400}
)


MESSAGE = Message("t", "m", Draft(b"x"), 10_000, 70_500)


def bounds(size: int, count: int) -> tuple[int, ...]:
    return bounds_of(range(1, size + 1), size // count)


def accepted(*matched: int) -> tuple[MemoryStore, MessageRow]:
    """Return a table that has a message, and the message as it is read there."""
    store = MemoryStore()
    store.write(accepted_put(MessageRow(MESSAGE, StateMap.of(matched), 7)))
    return store, read(store)


def read(store: MemoryStore) -> MessageRow:
    found = whole_message(store, "t", "m")
    assert found is not None
    return found


def closed(row: MessageRow, entries: Mapping[int, Entry]) -> tuple[Write, ...]:
    return round_writes(row, 10_000, ALL, entries, frozenset())


def test_a_closed_round_that_leaves_a_backlog_is_listed_as_retained_with_its_whole_life() -> None:
    _, row = accepted(1, 2)

    update, *others = closed(row, {1: OVER})

    assert isinstance(update, Update)
    assert (update.expect, update.remove) == ({"partial": 0, "round": "open"}, ())
    assert others == [RETAINED]


def test_a_healthy_round_takes_the_body_by_one_write_and_was_never_listed() -> None:
    _, row = accepted(1, 2)

    [update] = closed(row, {1: OVER, 2: OVER})

    assert isinstance(update, Update)
    assert (update.remove, update.changes["pending"]) == (("body", "deflated"), 0)
    assert update.changes["ttl"] == 70 + 3 * 86_400
    assert update.expect == {"partial": 0, "round": "open", "late": 0}


def test_of_a_wide_message_with_many_failures_all_ends_are_read_only_at_the_end() -> None:
    """Each batch of ends asks whether its message is complete. To read all ends before it each time is quadratic."""
    size = 2_000
    store, ordinals = MemoryStore(), range(1, size + 1)
    row = MessageRow(MESSAGE, StateMap.of(ordinals), 7, bounds=bounds(size, 2))
    store.write(accepted_put(row))
    for section in (0, 1):
        write_all(store, closed(with_ends(store, row, section), {}))
    read_before = store.rows_read

    for ordinal in sorted(ordinals, key=lambda each: each * 7_919 % size):
        write_all(store, end_writes(row, {ordinal: OVER}))
        if ordinal % 10 == 0:
            complete(store, "t", "m")
    complete(store, "t", "m")

    assert not read(store).is_pending
    assert store.rows_read - read_before < 30 * size


def test_a_section_is_read_with_its_own_ends_and_the_last_with_those_of_late_entries() -> None:
    """A list of retained messages reads all sections, and each of them read the ends of all."""
    size, count = 1_000, 10
    store, row = MemoryStore(), MessageRow(MESSAGE, StateMap.of(range(1, size + 1)), 7, bounds=bounds(size, count))
    store.write(accepted_put(row))
    write_all(store, late_writes(row, size + 7, AddedLater(10_500, 1)))
    for ordinal in (*range(1, size + 1), size + 7):
        write_all(store, end_puts(row, {ordinal: OVER}))
    read_before = store.rows_read

    parts = [with_ends(store, row, section) for section in range(count)]

    assert [len(part.map.ended) for part in parts] == [size // count] * (count - 1) + [size // count + 1]
    assert store.rows_read - read_before < 2 * size


class CountedRow(dict[str, Any]):
    """Counts how often its ordinal is looked at."""

    looks = 0

    def __getitem__(self, name: str) -> Any:
        CountedRow.looks += name == "ordinal"
        return super().__getitem__(name)


class CountedStore(MemoryStore):
    """A table whose rows are counted as they are decoded."""

    def __init__(self) -> None:
        super().__init__()
        CountedRow.looks = 0

    def query(self, *args: Any, **kwargs: Any) -> list[Row]:
        return [CountedRow(row) for row in super().query(*args, **kwargs)]


def test_the_ends_of_a_wide_message_are_decoded_once_however_many_sections_it_has() -> None:
    """Each section decoded the ends of all: of 30,000 failures, the relay had no time to complete their message."""
    size, count = 500, 10
    store, row = CountedStore(), MessageRow(MESSAGE, StateMap.of(range(1, size + 1)), 7, bounds=bounds(size, count))
    store.write(accepted_put(row))
    for ordinal in range(1, size + 1):
        write_all(store, end_puts(row, {ordinal: OVER}))

    parts = sections(store, row)

    assert [len(part.map.ended) for part in parts] == [size // count] * count
    assert CountedRow.looks < 5 * size


def test_a_delivery_that_ends_while_its_section_is_read_ends_once() -> None:
    """A worker that died had moved it to a backlog, and the backlog's worker ends it before the round is closed."""
    store, row = MemoryStore(), MessageRow(MESSAGE, StateMap.of((1, 2, 3, 4)), 7, bounds=(1, 3))
    store.write(accepted_put(row))
    unread = with_ends(store, row, 0)

    def end_by_another_worker(pk: str, rows: list[Row]) -> None:
        store.after_query = lambda pk, rows: None
        write_all(store, end_writes(unread, {1: Entry(EntryState.DISCARDED, 4)}))

    store.after_query = end_by_another_worker
    known = with_ends(store, row, 0)
    with pytest.raises(ConditionLostError):
        write_all(store, closed(known, {1: OVER, 2: OVER}))


def test_a_late_entry_and_the_removal_of_the_body_decide_by_one_condition() -> None:
    store, row = accepted(1)
    ended = replace(row, map=StateMap(frozenset((1,)), frozenset(), ended={1: OVER}))

    write_all(store, late_writes(row, 9, AddedLater(10_500, 1)))
    with pytest.raises(ConditionLostError):
        write_all(store, completion(ended, (None,)))

    assert (set(read(store).map.pending), read(store).late) == ({1, 9}, 1)

    other, row = accepted(1)
    write_all(other, completion(replace(row, map=ended.map), (None,)))
    with pytest.raises(ConditionLostError):
        write_all(other, late_writes(row, 9, AddedLater(10_500, 1)))


@pytest.mark.parametrize(("losses", "is_raised"), [(4, False), (5, True)])
def test_whoever_lets_a_message_go_tries_again_and_says_so_in_the_end(losses: int, is_raised: bool) -> None:
    store, row = accepted(1)
    write_all(store, (*closed(row, {}), *end_writes(row, {})))
    assert end_alone(store, read(store), 1, OVER)
    lost = iter([ConditionLostError()] * losses)

    def overtaken(writes: Sequence[Write]) -> None:
        for error in lost:
            raise error

    store.before_transact = overtaken
    with pytest.raises(ConditionLostError) if is_raised else nullcontext():
        complete(store, "t", "m")

    assert read(store).has_body is is_raised
