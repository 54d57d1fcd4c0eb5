"""Stores unchanged rows as JSON, which takes a tenth of the memory of Python objects."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from orjson import Fragment

from local.functions.quick_json import decode, encode

COLD_S = 30.0
"""The age at which unchanged rows are packed. A message without retries no longer changes at this age."""
ROW_BYTES_MAX = 4_096
"""Longer rows are not packed. A longer row is mostly one text, such as a body, so packing saves no memory."""
AT_ONCE = 1_000
"""The maximum number of rows that one call of :meth:`Packing.pack` packs. This takes some milliseconds."""

Row = dict[str, Any]


class PackedRows(dict[Any, Any]):
    """The rows of one partition, by sort key. Rows can be packed, that is, stored as JSON; readers get them unpacked.

    >>> row = {"n": {"N": "1"}}
    >>> rows = PackedRows(a=row, b=row)
    >>> rows.pack("a", row)
    >>> rows["a"], rows.get("a"), rows.values() == [row, row], rows == {"a": row, "b": row}, rows.packed
    ({'n': {'N': '1'}}, {'n': {'N': '1'}}, True, True, 1)
    """

    __slots__ = ()

    def pack(self, key: Any, row: Row) -> None:
        """Pack *row*. Do nothing if the row of *key* is no longer *row*, or if the JSON is long."""
        if dict.get(self, key) is row and len(text := encode(row)) <= ROW_BYTES_MAX:
            # A copy: orjson's result keeps the kilobytes of its write buffer.
            super().__setitem__(key, bytes(memoryview(text)))

    @property
    def packed(self) -> int:
        """The number of packed rows."""
        return sum(type(each) is bytes for each in super().values())

    def __getitem__(self, key: Any) -> Any:
        return _row(super().__getitem__(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the row of *key*; *default* if there is none."""
        return _row(super().get(key, default))

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove the row of *key*, and return it. Without such a row, return *default*, or raise KeyError."""
        return _row(super().pop(key, *default))

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the row of *key*. If there is none, store *default* as the row first."""
        return _row(super().setdefault(key, default))

    def values(self) -> list[Any]:  # type: ignore[override]
        """Return all rows."""
        return [_row(each) for each in super().values()]

    def items(self) -> list[tuple[Any, Any]]:  # type: ignore[override]
        """Return all rows with their keys."""
        return [(key, _row(each)) for key, each in super().items()]

    def copy(self) -> dict[Any, Any]:
        """Return the rows unpacked, in a new dictionary."""
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        return self.copy() == (other.copy() if isinstance(other, PackedRows) else other)

    __hash__ = None


def _row(found: Any) -> Any:
    return decode(found) if type(found) is bytes else found


class Packing:
    """Packs rows that were not written for *cold_s* seconds."""

    def __init__(self, cold_s: float = COLD_S) -> None:
        self._cold_s = cold_s
        self._written: deque[tuple[float, dict[str, Any], Any, Any, int]] = deque()

    def add(self, now_s: float, table: dict[str, Any], pk: Any, sk: Any, row: Row) -> None:
        """Record that *row* was written at *now_s*, in seconds of the monotonic clock.

        Only the row's identity is kept, because most rows are soon replaced. If a later row has the same identity, it
        is packed too early, which costs only time.
        """
        self._written.append((now_s, table, pk, sk, id(row)))

    def add_all(self, now_s: float, table: dict[str, Any]) -> None:
        """Record that all rows of a table were written at *now_s*."""
        for pk, rows in table["items"].items():
            for sk, row in rows.items():
                self.add(now_s, table, pk, sk, row)

    def pack(self, now_s: float) -> None:
        """Pack rows whose last write is old enough, at most :data:`AT_ONCE` per call."""
        for _, table, pk, sk, written in self._cold(now_s):
            partitions = table["items"]
            rows = partitions.get(pk, {})
            row = dict.get(rows, sk)
            if id(row) != written or type(row) is bytes:
                continue
            if type(rows) is dict:
                rows = partitions[pk] = PackedRows(rows)
            rows.pack(sk, row)

    def _cold(self, now_s: float) -> Iterator[tuple[float, dict[str, Any], Any, Any, int]]:
        for _ in range(AT_ONCE):
            if not self._written or self._written[0][0] > now_s - self._cold_s:
                return
            yield self._written.popleft()


def rows_with(partitions: dict[Any, dict[Any, Any]], attribute: str) -> Iterator[Row]:
    """Yield the rows that have an attribute. Packed rows without the attribute are not parsed, which saves time.

    >>> row = {"n": {"N": "1"}}
    >>> rows = PackedRows(a=row, b={"m": row})
    >>> rows.pack("a", row)
    >>> list(rows_with({"p": rows}, "n")), list(rows_with({"p": rows}, "m"))
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
    """Return the partitions of a table in a form that `encode` accepts. The JSON of packed rows is used as it is.

    >>> row = {"n": {"N": "1"}}
    >>> rows = PackedRows(a=row, b=row)
    >>> rows.pack("a", row)
    >>> encode(as_json({"p": rows}))
    b'{"p":{"a":{"n":{"N":"1"}},"b":{"n":{"N":"1"}}}}'
    """
    return {
        pk: {sk: Fragment(row) if type(row) is bytes else row for sk, row in dict.items(rows)}
        for pk, rows in partitions.items()
    }
