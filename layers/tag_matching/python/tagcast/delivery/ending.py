"""How deliveries end behind their first round: nothing else makes an entry terminal there.

The end of each is a row of its own, which is put once: no writer waits for another. A condition is lost
only to somebody who ended the same delivery, or who took what is written *beside*.

See docs/protocol.md, Invariants, 2, 3 and 5, and Completion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from tagcast.errors import ConditionLostError
from tagcast.ids import ordinal_of
from tagcast.model import Entry
from tagcast.ports import Store, Write
from tagcast.rows import stored
from tagcast.rows.due import PendingDelivery, due_delete_as_read
from tagcast.rows.log import completion, end_writes, enqueued_put, may_be_listed
from tagcast.rows.message import MessageRow

_T = TypeVar("_T")
TRIES_MAX = 5
WRITES_MAX = 99
"""A transaction has 100 writes; one is left for the lane."""


def end_due(
    store: Store, topic: str, due: PendingDelivery, entry: Entry, *beside: Write, known: MessageRow | None = None
) -> bool:
    """Bring a delivery that stands in a backlog to its end; its due row goes with it. Say whether it was owed there.

    *known* is its message if that was just read, and owed it. Where it is not with the lane the row is stale, and goes
    alone. ConditionLostError: nothing was written.
    """
    ordinal = ordinal_of(due.subscription_id)
    row, gone = known, (due_delete_as_read(due), *beside)
    if row is None:
        row = stored.message_with(store, topic, due.message_id, ordinal)
        if row is None or not row.map.is_with_lane(ordinal):
            write_all(store, gone)
            return False
    write_all(store, (*gone, *end_writes(row, {ordinal: entry})))
    return True


def enqueue_due(store: Store, row: MessageRow, due: PendingDelivery, *beside: Write) -> None:
    """Take a delivery out of its backlog that lies in its group's queue now; ConditionLostError as above."""
    ordinal = ordinal_of(due.subscription_id)
    write_all(store, (due_delete_as_read(due), *beside, enqueued_put(row, ordinal)))


def end_alone(store: Store, row: MessageRow, ordinal: int, entry: Entry) -> bool:
    """Bring a delivery without a due row to its end; say whether that was done, or has to be looked at again."""
    try:
        write_all(store, end_writes(row, {ordinal: entry}))
    except ConditionLostError:
        return False
    return True


def end_many(store: Store, row: MessageRow, ends: Mapping[int, Entry], dues: Mapping[int, PendingDelivery]) -> None:
    """Bring deliveries of one message to their ends, with their due rows; ConditionLostError: others were faster."""
    for some in slices_of(sorted(ends), (WRITES_MAX - 1) // 2):
        gone = [due_delete_as_read(dues[each]) for each in some if each in dues]
        write_all(store, (*gone, *end_writes(row, {each: ends[each] for each in some})))


def complete(store: Store, topic: str, message_id: str) -> None:
    """Let a message go if nothing of it is owed any more.

    The writer of an end need not know whether it was the last: this reads all rows of the message. Raises
    ConditionLostError if others write them all the time.
    """
    for tries in range(1, TRIES_MAX + 1):
        row = stored.closed_message(store, topic, message_id)
        if row is None or not row.is_owed or row.map.owed:
            return
        parts = stored.sections(store, row) if row.is_wide else [row]
        listed = [each.section for each in parts if may_be_listed(each)]
        try:
            for some in slices_of(completion(row, listed), WRITES_MAX):
                write_all(store, some)
        except ConditionLostError:
            if tries == TRIES_MAX:
                raise
        else:
            return


def slices_of(of: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """Return *of* in slices of at most *size*."""
    return (of[start : start + size] for start in range(0, len(of), size))


def write_all(store: Store, writes: Sequence[Write]) -> None:
    """Carry out one write as it is, several as a transaction."""
    if len(writes) == 1:
        store.write(writes[0])
    else:
        store.transact(writes)
