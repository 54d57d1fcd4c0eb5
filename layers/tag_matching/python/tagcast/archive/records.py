"""Derives archive records from a row change: flat records, each with an id by which duplicates are dropped.

The schema, field by field, is in ``docs/archive.md``. A record depends only on the two images of one change, so a
change read twice gives identical records, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tagcast.archive.messages import of_due, of_end, of_lane, of_late, of_message, of_round
from tagcast.archive.record import KeepsBody, Record, RowChange
from tagcast.archive.registry import of_filter_version, of_subscription, of_topic
from tagcast.rows.keys import RowKind, kind_of, topic_in_key


def records_of(change: RowChange, keeps_body: KeepsBody) -> tuple[Record, ...]:
    """Return the archive records of *change*; most changes have none. Raises KeyError or ValueError if unreadable."""
    row = change.after or change.before
    assert row is not None
    kind = kind_of(row)
    if kind is RowKind.MESSAGE:
        return tuple(of_message(change, keeps_body))
    if kind is RowKind.FILTER_VERSION:
        return tuple(of_filter_version(change, topic_in_key(row)))
    tell = _BY_KIND.get(kind)
    return () if tell is None else tuple(tell(change))


_BY_KIND: Mapping[RowKind, Callable[[RowChange], Iterator[Record]]] = {
    RowKind.ROUND: of_round,
    RowKind.END: of_end,
    RowKind.LATE: of_late,
    RowKind.DUE: of_due,
    RowKind.LANE: of_lane,
    RowKind.TOPIC: of_topic,
    RowKind.SUBSCRIPTION: of_subscription,
}
