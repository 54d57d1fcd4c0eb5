"""Reads the parts of archived messages that filters need, in Arrow batches."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Seen:
    """The parts of a message that a filter may read. The class fulfils the core's protocol ``FilterInput``.

    A *body* of None was not archived, or no filter reads it.
    """

    tags: tuple[str, ...]
    routing_key: str | None
    properties: Mapping[str, str]
    body: bytes | None = None


BODIES = ("body", "body_base64")
"""The columns of a body. One of them has the body; both are null if the body was not archived."""
Known = tuple[tuple[str, ...], str | None, tuple[tuple[str, str], ...], bytes | None]
"""The parts of a message as a hashable key. Messages with equal keys get equal verdicts."""


def filter_keys(batch: pa.RecordBatch) -> Iterator[Known]:
    """Yield the parts of each message of *batch* that filters read: tags, routing key, properties, and body.

    Each result is hashable. Its body is None if the batch has no bodies.
    """
    names = batch.schema.names
    tags = tuples_of(batch.column("tags"))
    keys = batch.column("routing_key").to_pylist()
    properties = tuples_of(batch.column("properties"))
    none = [None] * batch.num_rows
    texts, encoded = (batch.column(name).to_pylist() if name in names else none for name in BODIES)
    for each_tags, key, pairs, text, code in zip(tags, keys, properties, texts, encoded, strict=True):
        yield each_tags, key, pairs, body_of(text, code)


def tuples_of(column: pa.ListArray | pa.MapArray) -> list[tuple[Any, ...]]:
    """Return a column's lists or maps as tuples. Null becomes an empty tuple. ``to_pylist`` takes ten times as long."""
    ends = column.offsets.to_pylist()
    part = slice(ends[0], ends[-1])
    if pa.types.is_map(column.type):
        values = list(zip(column.keys[part].to_pylist(), column.items[part].to_pylist(), strict=True))
    else:
        values = column.values[part].to_pylist()
    return [tuple(values[begin - ends[0] : end - ends[0]]) for begin, end in pairwise(ends)]


def batch_of(rows: Sequence[tuple[Any, ...]], **types: str) -> pa.RecordBatch:
    """Return *rows* as an Arrow batch. *types* maps the name of each column to its Arrow type."""
    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    arrays = [pa.array(values, pa.type_for_alias(kind)) for values, kind in zip(columns, types.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, list(types))


def body_of(text: str | None, encoded: str | None) -> bytes | None:
    """Return a body from *text* and *encoded*, the archive's columns ``body`` and ``body_base64``.

    The result is None if the body was not archived.

    >>> body_of("a", None), body_of(None, "AA=="), body_of(None, None)
    (b'a', b'\\x00', None)
    """
    if encoded is not None:
        return base64.b64decode(encoded)
    return None if text is None else text.encode()


def message_of(known: Known) -> Seen:
    """Return the message with the parts in *known*, a key from :func:`filter_keys`.

    >>> message_of((("a",), None, (("price", "3"),), None)).properties["price"]
    '3'
    """
    tags, key, pairs, body = known
    return Seen(tags, key, dict(pairs), body)
