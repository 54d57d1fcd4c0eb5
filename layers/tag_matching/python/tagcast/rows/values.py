"""What stands in rows: values by their type, and how many bytes DynamoDB counts for them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tagcast.tables import Row, Value

LENGTH_BYTES, ELEMENT_BYTES = 3, 1


def text(row: Row, name: str) -> str:
    """Return a text that every such row has."""
    return cast("str", row[name])


def number(row: Row, name: str) -> int:
    """Return a number that every such row has."""
    return cast("int", row[name])


def texts(row: Row, name: str) -> Sequence[str]:
    """Return a list of texts that every such row has."""
    return cast("Sequence[str]", row[name])


def optional_text(row: Row, name: str) -> str | None:
    """Return a text, or None when the row has none."""
    return cast("str | None", row.get(name))


def dense(row: Mapping[str, Value]) -> dict[str, Value]:
    """Return the attributes that have a value."""
    return {name: value for name, value in row.items() if value is not None}


def deflated_json(value: object) -> bytes:
    """Return a JSON value in few bytes.

    >>> inflated_json(deflated_json(["é", None]))
    ['é', None]
    """
    return zlib.compress(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def inflated_json(deflated: bytes) -> Any:
    """Return the value that :func:`deflated_json` was given."""
    return json.loads(zlib.decompress(deflated))


def row_bytes(row: Row) -> int:
    """Return how many bytes DynamoDB counts for these attributes, their names included, or slightly more.

    A number is counted with a byte per two digits and two besides (AWS: one, and one more for a sign).

    >>> row_bytes({"pk": "é", "n": 1_800_000_000_000, "tags": ["a", "b"], "gone": None})
    25
    """
    return sum(len(name.encode()) + _bytes(value) for name, value in row.items() if value is not None)


def _bytes(value: Value) -> int:
    match value:
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case int():
            return (len(str(abs(value))) + 1) // 2 + 2
        case Mapping():
            return LENGTH_BYTES + sum(len(n.encode()) + len(v.encode()) + ELEMENT_BYTES for n, v in value.items())
        case None:
            return 0
        case _:
            return LENGTH_BYTES + sum(len(each.encode()) + ELEMENT_BYTES for each in value)
