"""How entries end: read the message, is it still owed, settle, write on condition, again.

See docs/architecture.md, Invariants, 2, 3 and 5.

This is the only place that does so. Each caller says, as a plan, what ends of a message as it was just read and what
is written together with that; and, after each lost condition, whether it has the patience to try again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.errors import ConditionLostError
from tagcast.model import Entry, EntryState
from tagcast.ports import Executor, Store, Write
from tagcast.rows.attempt_history import remembering
from tagcast.rows.message import MessageRow
from tagcast.rows.message_writes import lone_update, map_writes
from tagcast.tables import UPDATES_MAX, fitting

TURN_S = 0.02
UNITS_PER_S = 1_000
ENDED_BYTES = 50
"""About what an entry takes that did not end in the first round."""
TOGETHER_BYTES_MAX = 2 * 1024 * 1024
"""Of the 4 MiB of a transaction, or the 16 of a request, half and more is left to be wrong by."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ending:
    """What ends of a message: entries by ordinal; *beside* is written with it.

    With *round_at* the first round ends, too, for those who are *served* (None: for all).

    What is *handed* to its group's queue ends nowhere yet; it is only written where it lies.
    """

    entries: Mapping[int, Entry]
    round_at: int | None = None
    served: Set[int] | None = None
    beside: Sequence[Write] = ()
    handed: Set[int] = frozenset()


Read = Callable[[], MessageRow | None]
"""Reads a message with that part of its map in which something is to end; None when even the receipt is gone."""

Plan = Callable[[MessageRow], Ending | None]
"""Says what ends of a message as it was just read; None when nothing of it is owed here any more."""


@dataclass(frozen=True, slots=True)
class Ended:
    """So many *entries* were settled; *after* is the message's row since."""

    after: MessageRow
    entries: int


@dataclass(frozen=True, slots=True)
class NotOwed:
    """There was nothing to write: *found* is the message's row, None when even the receipt is gone."""

    found: MessageRow | None


@dataclass(frozen=True, slots=True)
class Lost:
    """The condition was lost so many *times*: somebody else wrote what was read as *before*, or what stands beside."""

    before: MessageRow
    times: int
    error: ConditionLostError


async def settle(
    store: Store,
    executor: Executor,
    read: Read,
    plan: Plan,
    again: Callable[[Lost], Awaitable[bool]],
    known: MessageRow | None = None,
) -> Ended | NotOwed | Lost:
    """Bring what *plan* says of a message to its end; return Lost when *again* has no more patience.

    *known* is what *read* would return if it was read already. Every call of the store is carried out by *executor*.
    """
    lost = 0
    while True:  # It ends: *again* ends it, if nothing else does.
        before = known
        if before is None:
            before = await executor.run(read)
        ending = None if before is None else plan(before)
        if before is None or ending is None:
            return NotOwed(before)
        after = _after(before, ending)
        try:
            await executor.run(partial(write_all, store, (*ending.beside, *map_writes(before, after))))
        except ConditionLostError as error:
            lost, known = lost + 1, None
            refused = Lost(before, lost, error)
        else:
            return Ended(after, len(ending.entries))
        if not await again(refused):
            return refused


async def settle_together(
    store: Store, executor: Executor, endings: Sequence[tuple[MessageRow, Ending]], beside: Sequence[Write]
) -> bool:
    """Bring several messages, as they were just read, to their ends in one transaction with *beside*.

    Says whether that was done: nothing is written if anybody wrote one of them since, and each has to be settled alone.
    """
    writes = [write for before, ending in endings for write in map_writes(before, _after(before, ending))]
    writes += [write for _, ending in endings for write in ending.beside]
    try:
        await executor.run(partial(write_all, store, (*beside, *writes)))
    except ConditionLostError:
        return False
    return True


async def settle_each(
    store: Store, executor: Executor, endings: Sequence[tuple[MessageRow, Ending]]
) -> tuple[list[str], list[Exception]]:
    """Bring messages, as they were just read, to their ends: each by itself, many in a request.

    Returns those that are left to be settled alone, by their ids (whatever takes more than one write, and what somebody
    wrote since), and the faults of requests that failed as a whole.
    """
    lone = {row.message.message_id: (row, ending) for row, ending in endings if _is_lone(row, ending)}
    left = [row.message.message_id for row, _ in endings if row.message.message_id not in lone]

    async def write(some: Sequence[str]) -> None:
        updates = [lone_update(row, _after(row, ending)) for row, ending in map(lone.__getitem__, some)]
        done = await executor.run(partial(store.update_each, updates))
        left.extend(message_id for message_id, is_done in zip(some, done, strict=True) if not is_done)

    requests = fitting(list(lone), UPDATES_MAX, TOGETHER_BYTES_MAX, lambda each: _size_after(*lone[each]))
    return left, await side_by_side([write(some) for some in requests])


def _is_lone(before: MessageRow, ending: Ending) -> bool:
    """Say whether the update of its row is all that there is to write: nobody is owed the message any more."""
    lists_nothing = before.section is None and not before.map.is_retained
    return lists_nothing and not ending.beside and before.map.owed <= ending.entries.keys()


def _size_after(before: MessageRow, ending: Ending) -> int:
    return size_of(before) + ENDED_BYTES * len(ending.entries)


def _after(before: MessageRow, ending: Ending) -> MessageRow:
    after = before.settled(ending.entries, round_at=ending.round_at, served=ending.served, handed=ending.handed)
    if any(entry.history and entry.state is not EntryState.DELIVERED for entry in ending.entries.values()):
        return remembering(before, after, ending.entries)
    return after


class _InPlace:
    """Carries out every call where it is asked for."""

    async def run(self, call: Callable[[], T]) -> T:
        return call()


def settle_at_once(
    store: Store,
    read: Read,
    plan: Plan,
    again: Callable[[Lost], bool] = lambda _: False,
    known: MessageRow | None = None,
) -> Ended | NotOwed | Lost:
    """Do as :func:`settle` does without an event loop, for whoever is a blocking call as a whole; by default once."""

    async def at_once(lost: Lost) -> bool:
        return again(lost)

    return _never_waiting(settle(store, _InPlace(), read, plan, at_once, known))


def _never_waiting(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waited for something")


def turn_s(row: MessageRow) -> float:
    """Return how far apart the writers of one message's row should be.

    A turn is a read and a transaction, some 20 ms; and one row gives a thousand write units a second, of which a
    transactional write takes two for each KiB of the row: body and all that has ended. Half of that, so that the row
    is never idle.
    """
    return max(TURN_S, size_of(row) / 1024 / UNITS_PER_S)


def size_of(row: MessageRow) -> int:
    """Return about how many bytes the row of a map has: the body where it stands there, and all that has ended."""
    body = 0 if row.section else len(row.message.draft.body)
    return body + len(row.histories) + ENDED_BYTES * len(row.map.settled)


def write_all(store: Store, writes: Sequence[Write]) -> None:
    """Carry out one write as it is, several as a transaction."""
    if len(writes) == 1:
        store.write(writes[0])
    else:
        store.transact(writes)
