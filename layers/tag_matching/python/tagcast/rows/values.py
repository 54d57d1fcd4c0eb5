"""Values of row attributes by type, and the bytes that DynamoDB counts for them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, cast

from tagcast.tables import Row, Value

LENGTH_BYTES, ELEMENT_BYTES = 3, 1


def text(row: Row, name: str) -> str:
    """Return the text of an attribute that must exist."""
    return cast("str", row[name])


def number(row: Row, name: str) -> int:
    """Return the number of an attribute that must exist."""
    return cast("int", row[name])


def optional_text(row: Row, name: str) -> str | None:
    """Return the text of an attribute, or None if the attribute is missing."""
    return cast("str | None", row.get(name))


def deflate_json(value: object) -> bytes:
    """Return *value* as deflated JSON.

    >>> inflate_json(deflate_json(["é", None]))
    ['é', None]
    """
    return zlib.compress(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def inflate_json(deflated: bytes) -> Any:
    """Return the value that :func:`deflate_json` deflated."""
    return json.loads(zlib.decompress(deflated))


def row_bytes(row: Row) -> int:
    """Return the bytes that DynamoDB counts for the attributes of *row* and their names, or slightly more.

    A number counts as one byte for every two digits, plus two bytes. AWS adds only one byte if there is no sign.

    >>> row_bytes({"pk": "é", "n": 1_800_000_000_000, "tags": ["a", "b"], "gone": None, "map": {"k": "five!"}})
    38
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
