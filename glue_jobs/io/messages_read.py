"""Archived messages as filters read them, in batches of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Seen:
    """What a filter may read of a message: the core's ``FilterInput``."""

    tags: tuple[str, ...]
    routing_key: str | None
    properties: Mapping[str, str]


Known = tuple[tuple[str, ...], str | None, tuple[tuple[str, str], ...]]
"""The same as a key: messages that agree in it get the same verdicts."""


def known_of(batch: pa.RecordBatch) -> Iterator[Known]:
    """Yield what filters read of each message of *batch* (columns tags, routing_key, properties)."""
    names = batch.schema.names
    tags = batch.column(names.index("tags")).to_pylist()
    keys = batch.column(names.index("routing_key")).to_pylist()
    properties = batch.column(names.index("properties")).to_pylist()
    for each_tags, key, pairs in zip(tags, keys, properties, strict=True):
        yield tuple(each_tags or ()), key, tuple(pairs or ())


def seen_of(known: Known) -> Seen:
    """Return the message that *known* stands for.

    >>> seen_of((("a",), None, (("price", "3"),))).properties["price"]
    '3'
    """
    tags, key, pairs = known
    return Seen(tags, key, dict(pairs))
