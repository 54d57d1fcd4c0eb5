"""How entries end: nothing else makes an entry terminal.

A message is read, a plan says what ends of it, and that is written on condition that nobody wrote the message since.
A lost condition comes back as a `Conflict`: the caller knows how often to try, and how long to wait before.

See docs/protocol.md, Invariants, 2, 3 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from tagcast.concurrency.side_by_side import side_by_side
from tagcast.errors import ConditionLostError
from tagcast.ids import ordinal_of
from tagcast.model import Entry, EntryState
from tagcast.ports import Executor, Store, Write
from tagcast.rows import stored
from tagcast.rows.due import OwedDelivery, due_delete_as_read, remembering
from tagcast.rows.message import ENDED_BYTES, MessageRow
from tagcast.rows.message_writes import lone_update, map_writes
from tagcast.tables import UPDATES_MAX, fitting

TURN_S = 0.02
UNITS_PER_S = 1_000
TOGETHER_MAX = 33
"""At most 33 messages end in a transaction, because it has 100 writes: three for each message and one for the lane."""
TOGETHER_BYTES_MAX = 2 * 1024 * 1024
"""At most 2 MiB together, because a transaction takes 4 MiB, a request 16, and sizes are estimates."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What ends of a message: *entries* by ordinal; *beside* is written with it.

    With *round_at* the first round of those that are *served* (None: of all) is done, too. What is *enqueued* for its
    group does not end yet: the map only says that it is with the consumer now.
    """

    entries: Mapping[int, Entry]
    round_at: int | None = None
    served: Set[int] | None = None
    beside: Sequence[Write] = ()
    enqueued: Set[int] = frozenset()


Plan = Callable[[MessageRow], Ending | None]
"""Says what ends of a message as it was just read; None when nothing of it is owed here any more."""


@dataclass(frozen=True, slots=True)
class EntryEnd:
    """The end of one entry; *beside* is written in the same transaction, whether the entry is still owed or not.

    With *due*, its row in a backlog, the entry ends only while it is with the lane: what lies in its group's queue ends
    there. The row goes with it; where the entry is not with the lane the row is stale, and goes alone.
    An *entry* that is pending was enqueued for its group.
    """

    topic: str
    message_id: str
    ordinal: int
    entry: Entry
    due: OwedDelivery | None = None
    beside: tuple[Write, ...] = ()

    @classmethod
    def of_due(cls, topic: str, due: OwedDelivery, entry: Entry, *beside: Write) -> EntryEnd:
        """Return the end of a delivery that stands in a backlog."""
        return cls(topic, due.message_id, ordinal_of(due.subscription_id), entry, due, beside)

    @property
    def around(self) -> tuple[Write, ...]:
        """Return what is written besides the message."""
        return self.beside if self.due is None else (due_delete_as_read(self.due), *self.beside)

    @property
    def ending(self) -> Ending:
        """Return what ends of a message that owes the entry here."""
        if not self.entry.state.is_terminal:
            return Ending({}, beside=self.around, enqueued={self.ordinal})
        return Ending({self.ordinal: self.entry}, beside=self.around)

    def plan(self, before: MessageRow) -> Ending | None:
        """Return what ends of the message, None if the entry is not owed here."""
        in_map = before.map
        is_owed = self.ordinal in in_map.owed if self.due is None else in_map.is_with_lane(self.ordinal)
        return self.ending if is_owed else None


@dataclass(frozen=True, slots=True)
class Ended:
    """The message's row *after* the write, and how many *entries* ended with it."""

    after: MessageRow
    entries: int


@dataclass(frozen=True, slots=True)
class NotOwed:
    """Nothing of the message was owed: *found* is its row, None when even the receipt is gone."""

    found: MessageRow | None


@dataclass(frozen=True, slots=True)
class Conflict:
    """Nothing was written: somebody else wrote what was read as *before*, or what stands beside."""

    before: MessageRow | None
    error: ConditionLostError

    @property
    def all_s(self) -> float:
        """Return how many seconds all that may still write the message need one after the other."""
        return 0.0 if self.before is None else self.before.map.pending * turn_s(self.before)


def end_due(
    store: Store, topic: str, due: OwedDelivery, entry: Entry, *beside: Write, known: MessageRow | None = None
) -> Ended | NotOwed | Conflict:
    """Try once to bring a delivery that stands in a backlog to its end, as :func:`end_entry` does."""
    return end_entry(store, EntryEnd.of_due(topic, due, entry, *beside), known)


def end_entry(store: Store, end: EntryEnd, known: MessageRow | None = None) -> Ended | NotOwed | Conflict:
    """Try once to bring one entry to its end; *known* is its message if that was read already, and owed it here."""
    if known is not None:
        return write_ending(store, known, end.ending)
    read = partial(stored.entry, store, end.topic, end.message_id, end.ordinal)
    return end_planned(store, read, end.plan, stale=end.around)


def end_planned(
    store: Store,
    read: Callable[[], MessageRow | None],
    plan: Plan,
    known: MessageRow | None = None,
    *,
    stale: Sequence[Write] = (),
) -> Ended | NotOwed | Conflict:
    """Try once to bring what *plan* says of a message to its end; where that is nothing, write what is *stale*.

    *known* is what *read* would return if it was read already.
    """
    before = read() if known is None else known
    ending = None if before is None else plan(before)
    if before is not None and ending is not None:
        return write_ending(store, before, ending)
    try:
        if stale:
            write_all(store, stale)
    except ConditionLostError as error:
        return Conflict(before, error)
    return NotOwed(before)


def write_ending(store: Store, before: MessageRow, ending: Ending) -> Ended | Conflict:
    """Try once to write what ends of a message that was read as *before*."""
    after = _after(before, ending)
    try:
        write_all(store, (*ending.beside, *map_writes(before, after)))
    except ConditionLostError as error:
        return Conflict(before, error)
    return Ended(after, len(ending.entries))


async def end_together(
    store: Store, executor: Executor, topic: str, ends: Sequence[tuple[OwedDelivery, Entry, MessageRow]], *beside: Write
) -> set[str]:
    """Bring deliveries in backlogs to their ends, as many in a transaction as it takes, each of these with *beside*.

    Their messages were just read, and owe them. Returns the messages of which that was done. The others have to end one
    by one: wide ones always do, and nothing of a transaction is written if anybody wrote one of its messages since.
    """
    done: set[str] = set()
    narrow = [each for each in ends if not each[2].is_wide]
    for some in fitting(narrow, TOGETHER_MAX, TOGETHER_BYTES_MAX, lambda each: each[2].size):
        writes = [*beside]
        for due, entry, before in some:
            end = EntryEnd.of_due(topic, due, entry)
            after = _after(before, end.ending)
            writes += [*map_writes(before, after), *end.around]
        with suppress(ConditionLostError):
            await executor.run(partial(write_all, store, writes))
            done |= {due.message_id for due, _, _ in some}
    return done


async def end_each(
    store: Store, executor: Executor, endings: Sequence[tuple[MessageRow, Ending]]
) -> tuple[list[str], list[Exception]]:
    """Bring messages, which were just read, to their ends: each by itself, many in a request.

    Returns the ids of those that have to be ended alone, because they take more than one write or somebody wrote them
    since, and the faults of requests that failed as a whole.
    """
    planned = [
        (row, ending, lone_update(row, _after(row, ending)) if _ends(row, ending) else None) for row, ending in endings
    ]
    lone = {row.message.message_id: (row, ending, update) for row, ending, update in planned if update is not None}
    left = [row.message.message_id for row, _, update in planned if update is None]

    async def write(some: Sequence[str]) -> None:
        done = await executor.run(partial(store.update_each, [lone[each][2] for each in some]))
        left.extend(message_id for message_id, is_done in zip(some, done, strict=True) if not is_done)

    def size(message_id: str) -> int:
        row, ending, _ = lone[message_id]
        return row.size + ENDED_BYTES * len(ending.entries)

    return left, await side_by_side(
        [write(some) for some in fitting(list(lone), UPDATES_MAX, TOGETHER_BYTES_MAX, size)]
    )


def _ends(before: MessageRow, ending: Ending) -> bool:
    """Say whether nothing is owed of the message afterwards, and nothing is written beside."""
    return not ending.beside and before.map.owed <= ending.entries.keys()


def _after(before: MessageRow, ending: Ending) -> MessageRow:
    after = before.settled(ending.entries, round_at=ending.round_at, served=ending.served, enqueued=ending.enqueued)
    if any(entry.history and entry.state is not EntryState.DELIVERED for entry in ending.entries.values()):
        return remembering(before, after, ending.entries)
    return after


def turn_s(row: MessageRow) -> float:
    """Return how far apart the writers of one message's row should be, in seconds.

    A turn is a read and a transaction, some 20 ms; and one row gives a thousand write units a second, of which a
    transactional write takes two for each KiB of the row. Half of that, so that the row is never idle.
    """
    return max(TURN_S, row.size / 1024 / UNITS_PER_S)


def write_all(store: Store, writes: Sequence[Write]) -> None:
    """Carry out one write as it is, several as a transaction."""
    if len(writes) == 1:
        store.write(writes[0])
    else:
        store.transact(writes)
