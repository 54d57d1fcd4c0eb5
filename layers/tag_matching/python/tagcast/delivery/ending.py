"""Ends deliveries after their first round. `LaneLease.end_deliveries` ends several deliveries of one lane at once.

Each end is a row of its own, put only if it is absent (`tagcast.rows.message_transitions:end_writes`), so writers do
not wait for each other. A condition fails only if another writer ended the same delivery, or changed another row of the
transaction (docs/protocol.md, Invariants, 2, 3 and 5, and Completion).
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
from tagcast.rows.message import MessageRow
from tagcast.rows.message_transitions import completion, end_writes, may_be_listed

_T = TypeVar("_T")
TRIES_MAX = 5
WRITES_MAX = 99
"""A transaction has at most 100 writes. One write is reserved for the lane."""


def end_due(
    store: Store, topic: str, due: PendingDelivery, entry: Entry, *beside: Write, known: MessageRow | None = None
) -> bool:
    """End a delivery in a backlog and delete its due row. Return whether the delivery was pending in the backlog.

    If the delivery was not pending there, only its stale due row is deleted. *beside* are further writes of the
    transaction. *known* is the message's row, if the caller has just read it while the delivery was pending. Raises
    ConditionLostError if nothing was written.
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


def end_alone(store: Store, row: MessageRow, ordinal: int, entry: Entry) -> bool:
    """End a delivery without a due row. Return False if *row* was outdated; the caller must read it again and retry."""
    try:
        write_all(store, end_writes(row, {ordinal: entry}))
    except ConditionLostError:
        return False
    return True


def end_many(store: Store, row: MessageRow, ends: Mapping[int, Entry], dues: Mapping[int, PendingDelivery]) -> None:
    """End deliveries of one message and delete their due rows, in several transactions if necessary.

    *ends* and *dues* are by ordinal; a delivery without a due row is missing in *dues*. Raises ConditionLostError if
    another writer was faster. Some of the deliveries may have ended before this error.
    """
    for some in slices_of(sorted(ends), (WRITES_MAX - 1) // 2):
        gone = [due_delete_as_read(dues[each]) for each in some if each in dues]
        write_all(store, (*gone, *end_writes(row, {each: ends[each] for each in some})))


def complete(store: Store, topic: str, message_id: str) -> None:
    """Complete a message without pending deliveries: remove it from the retained list, delete its body unless kept.

    If a delivery is pending, this function changes nothing, so the caller need not know whether it wrote the last end.
    Raises ConditionLostError if other writers keep changing the message's rows.
    """
    for tries in range(1, TRIES_MAX + 1):
        row = stored.closed_message(store, topic, message_id)
        if row is None or not row.is_pending or row.map.pending:
            return
        parts = stored.sections(store, row, rounds_only=True) if row.is_wide else [row]
        listed = [each.section for each in parts if may_be_listed(each)]
        try:
            for some in slices_of(completion(row, listed), WRITES_MAX):
                write_all(store, some)
        except ConditionLostError:
            if tries == TRIES_MAX:
                raise
        else:
            return


def slices_of(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """Cut a sequence into slices of at most *size* items."""
    return (items[start : start + size] for start in range(0, len(items), size))


def write_all(store: Store, writes: Sequence[Write]) -> None:
    """Execute a single write directly, and several writes as one transaction."""
    if len(writes) == 1:
        store.write(writes[0])
    else:
        store.transact(writes)
