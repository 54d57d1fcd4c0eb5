"""Records of the archive, and the row changes from which they are derived."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tagcast.ports import Row

SCHEMA_VERSION = 1
Field = str | int | bool | None | list[int] | list[str] | Mapping[str, str]
KeepsBody = Callable[[str], bool]
"""Returns whether the message bodies of the topic with this name are archived."""


class RecordKind(StrEnum):
    """The kinds of records; each has a Firehose stream, a prefix in the bucket and a table of its own."""

    MESSAGES = "messages"
    DELIVERIES = "deliveries"
    SUBSCRIPTIONS = "subscriptions"
    LANES = "lanes"


def split_columns(values: Mapping[str, Field], columns: Iterable[str], rest: str) -> dict[str, Field]:
    """Return the values named in *columns*, and all other values as JSON in one further column, named *rest*.

    >>> split_columns({"tags": ["a"], "region": "eu", "zone": None}, ("tags",), "attributes")
    {'tags': ['a'], 'attributes': '{"region": "eu"}'}
    """
    found = {name: values[name] for name in columns}
    others = {name: value for name, value in values.items() if name not in found and value is not None}
    return found | {rest: json.dumps(others, sort_keys=True) if others else None}


@dataclass(frozen=True, slots=True)
class RowChange:
    """One change of a row. *before* is None for a new row, *after* for a deleted row.

    *removed_by_ttl*: the table deleted the row because its time to live was over.
    """

    before: Row | None
    after: Row | None
    changed_at: int
    removed_by_ttl: bool = False

    @property
    def remover(self) -> str:
        """The cause of a row's removal: ``ttl`` (the time to live was over) or ``deletion``."""
        return "ttl" if self.removed_by_ttl else "deletion"


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the archive. *is_newly_unverified*: the change made an endpoint unverified; only events use it."""

    kind: RecordKind
    fields: Mapping[str, Any]
    is_newly_unverified: bool = False

    def line(self) -> str:
        """Return the record as one line of JSON, without None values."""
        present = {name: value for name, value in self.fields.items() if value is not None}
        return json.dumps(present, separators=(",", ":"), ensure_ascii=False)


def record(kind: RecordKind, record_id: str, **fields: Field) -> Record:
    """Return a record of the current schema. *record_id* is the same for each repetition of the record."""
    return Record(kind, {"record_id": record_id, "schema_version": SCHEMA_VERSION, **fields})
