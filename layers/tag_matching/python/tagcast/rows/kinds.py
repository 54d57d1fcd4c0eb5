"""The kinds of rows that tables' streams tell of, by their keys."""

from __future__ import annotations

from enum import Enum, auto

from tagcast.rows.values import text
from tagcast.tables import Row


class RowKind(Enum):
    """What a row is."""

    MESSAGE = auto()
    SECTION = auto()
    DUE = auto()
    LANE = auto()
    TOPIC = auto()
    SUBSCRIPTION = auto()
    FILTER_VERSION = auto()
    OTHER = auto()
    """Lists, claims, names, shadows, counts: nobody follows their changes."""


_BY_PARTITION = {"DUE": RowKind.DUE, "LANES": RowKind.LANE}
_OF_MESSAGE = {"MSG": RowKind.MESSAGE, "SECTION": RowKind.SECTION}
_OF_TOPIC = {"TOPIC": RowKind.TOPIC, "SUB": RowKind.SUBSCRIPTION, "VERSION": RowKind.FILTER_VERSION}


def kind_of(row: Row) -> RowKind:
    """Return what *row* is.

    >>> kind_of({"pk": "LANES#orders", "sk": "07457000000000000001.3"})
    <RowKind.LANE: 4>
    >>> kind_of({"pk": "TOPIC#orders", "sk": "SUB#A"}), kind_of({"pk": "TOPIC#orders", "sk": "NAME#0000000003"})
    (<RowKind.SUBSCRIPTION: 6>, <RowKind.OTHER: 8>)
    """
    part = text(row, "pk").partition("#")[0]
    if part in ("MSG", "TOPIC"):
        kinds = _OF_MESSAGE if part == "MSG" else _OF_TOPIC
        return kinds.get(text(row, "sk").partition("#")[0], RowKind.OTHER)
    return _BY_PARTITION.get(part, RowKind.OTHER)


def topic_in_key(row: Row) -> str:
    """Return the name of the topic whose row this is, which the key of its partition says.

    >>> topic_in_key({"pk": "TOPIC#orders", "sk": "VERSION#0000000003#0000000001"})
    'orders'
    """
    return text(row, "pk").partition("#")[2]
