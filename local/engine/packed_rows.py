"""Stores rows as JSON, which takes a tenth of the memory of Python objects."""

from collections.abc import Iterator
from typing import Any

from orjson import Fragment

from local.functions.quick_json import decode, encode

ROW_BYTES_MAX = 4_096
"""Longer rows stay objects. A longer row is mostly one text, such as a body, so JSON saves no memory."""

Row = dict[str, Any]


class PackedRows(dict[Any, Any]):
    """The rows of one partition, by sort key. They are stored as JSON; each reader gets a row of its own.

    >>> row = {"n": {"N": "1"}}
    >>> rows = PackedRows({"a": row})
    >>> rows["b"] = row
    >>> rows["a"], rows.get("a"), rows.values() == [row, row], rows == {"a": row, "b": row}
    ({'n': {'N': '1'}}, {'n': {'N': '1'}}, True, True)
    """

    __slots__ = ()

    def __init__(self, rows: dict[Any, Row] | None = None) -> None:
        for key, row in (rows or {}).items():
            self[key] = row

    def __setitem__(self, key: Any, row: Row) -> None:
        text = encode(row)
        # A copy: orjson's result keeps the kilobytes of its write buffer.
        super().__setitem__(key, bytes(memoryview(text)) if len(text) <= ROW_BYTES_MAX else row)

    def json_of(self, key: Any) -> Any:
        """Return the row of *key* in a form that `encode` accepts. A row that is stored as JSON is not parsed."""
        return _as_json(super().__getitem__(key))

    def __getitem__(self, key: Any) -> Any:
        return _row(super().__getitem__(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the row of *key*; *default* if there is none."""
        return _row(super().get(key, default))

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove the row of *key*, and return it. Without such a row, return *default*, or raise KeyError."""
        return _row(super().pop(key, *default))

    def values(self) -> list[Any]:  # type: ignore[override]
        """Return all rows."""
        return [_row(each) for each in super().values()]

    def items(self) -> list[tuple[Any, Any]]:  # type: ignore[override]
        """Return all rows with their keys."""
        return [(key, _row(each)) for key, each in super().items()]

    def copy(self) -> dict[Any, Any]:
        """Return the rows in a new, ordinary dictionary."""
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        return self.copy() == (other.copy() if isinstance(other, PackedRows) else other)

    __hash__ = None


def _row(found: Any) -> Any:
    return decode(found) if type(found) is bytes else found


def _as_json(found: Any) -> Any:
    return Fragment(found) if type(found) is bytes else found


def rows_with(partitions: dict[Any, dict[Any, Any]], attribute: str) -> Iterator[Row]:
    """Yield the rows that have an attribute. JSON without the attribute is not parsed, which saves time.

    >>> row = {"n": {"N": "1"}}
    >>> rows = {"p": PackedRows({"a": row, "b": {"m": row}})}
    >>> list(rows_with(rows, "n")), list(rows_with(rows, "m"))
    ([{'n': {'N': '1'}}], [{'m': {'n': {'N': '1'}}}])
    """
    token = b'"%b":' % attribute.encode()
    for rows in partitions.values():
        for each in dict.values(rows):
            if type(each) is not bytes or token in each:
                row = _row(each)
                if attribute in row:
                    yield row


def as_json(partitions: dict[Any, dict[Any, Any]]) -> dict[Any, Any]:
    """Return the partitions of a table in a form that `encode` accepts. Rows that are stored as JSON are not parsed.

    >>> row = {"n": {"N": "1"}}
    >>> encode(as_json({"p": PackedRows({"a": row, "b": row})}))
    b'{"p":{"a":{"n":{"N":"1"}},"b":{"n":{"N":"1"}}}}'
    """
    return {pk: {sk: _as_json(row) for sk, row in dict.items(rows)} for pk, rows in partitions.items()}
