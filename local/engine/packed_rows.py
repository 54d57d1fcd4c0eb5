"""Keeps rows that nobody has changed for a while as their JSON: a tenth of what they take as Python's objects."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from orjson import Fragment

from local.functions.quick_json import decoded, encoded

COLD_S = 30.0
"""A message that is delivered at once is changed for the last time before that."""
ROW_BYTES_MAX = 4_096
"""What is longer is mostly one text, such as a body, which takes the same place either way."""
AT_ONCE = 1_000
"""Rows that are packed one after the other, which takes some milliseconds, before others are served."""

Row = dict[str, Any]


class Rows(dict[Any, Any]):
    """The rows of one partition; some of them are packed, which no reader notices.

    >>> row = {"n": {"N": "1"}}
    >>> rows = Rows(a=row, b=row)
    >>> rows.pack("a", row)
    >>> rows["a"], rows.get("a"), rows.values() == [row, row], rows == {"a": row, "b": row}, rows.packed
    ({'n': {'N': '1'}}, {'n': {'N': '1'}}, True, True, 1)
    """

    __slots__ = ()

    def pack(self, key: Any, row: Row) -> None:
        """Pack a row, unless another has taken its place, or it is long."""
        if dict.get(self, key) is row and len(text := encoded(row)) <= ROW_BYTES_MAX:
            # A copy: what orjson answers keeps the kilobytes of room that it was written in.
            super().__setitem__(key, bytes(memoryview(text)))

    @property
    def packed(self) -> int:
        """How many are packed."""
        return sum(type(each) is bytes for each in super().values())

    def __getitem__(self, key: Any) -> Any:
        return _row(super().__getitem__(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """The row of a key."""
        return _row(super().get(key, default))

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove the row of a key, and answer it."""
        return _row(super().pop(key, *default))

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The row of a key, or the one that it has from now on."""
        return _row(super().setdefault(key, default))

    def values(self) -> list[Any]:  # type: ignore[override]
        """All rows."""
        return [_row(each) for each in super().values()]

    def items(self) -> list[tuple[Any, Any]]:  # type: ignore[override]
        """All rows with their keys."""
        return [(key, _row(each)) for key, each in super().items()]

    def copy(self) -> dict[Any, Any]:
        """A dictionary of the same rows."""
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        return self.copy() == (other.copy() if isinstance(other, Rows) else other)

    __hash__ = None


def _row(found: Any) -> Any:
    return decoded(found) if type(found) is bytes else found


class Packing:
    """Packs the rows of tables when they have not been changed for *cold_s*."""

    def __init__(self, cold_s: float = COLD_S) -> None:
        self._cold_s = cold_s
        self._written: deque[tuple[float, dict[str, Any], Any, Any, Row]] = deque()

    def add(self, now_s: float, table: dict[str, Any], pk: Any, sk: Any, row: Row) -> None:
        """Remember that a row was written."""
        self._written.append((now_s, table, pk, sk, row))

    def add_all(self, now_s: float, table: dict[str, Any]) -> None:
        """Remember all rows of a table as written."""
        for pk, rows in table["items"].items():
            for sk, row in rows.items():
                self.add(now_s, table, pk, sk, row)

    def pack(self, now_s: float) -> None:
        """Pack what is cold by now, as far as that takes no time."""
        for _, table, pk, sk, row in self._cold(now_s):
            partitions = table["items"]
            rows = partitions.get(pk)
            if rows is None or dict.get(rows, sk) is not row:
                continue
            if type(rows) is dict:
                rows = partitions[pk] = Rows(rows)
            rows.pack(sk, row)

    def _cold(self, now_s: float) -> Iterator[tuple[float, dict[str, Any], Any, Any, Row]]:
        for _ in range(AT_ONCE):
            if not self._written or self._written[0][0] > now_s - self._cold_s:
                return
            yield self._written.popleft()


def rows_with(partitions: dict[Any, dict[Any, Any]], attribute: str) -> Iterator[Row]:
    """All rows that have an attribute; of others that are packed only the text is looked at.

    >>> row = {"n": {"N": "1"}}
    >>> rows = Rows(a=row, b={"m": row})
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
    """The partitions of a table as what JSON is written of: packed rows as they are.

    >>> row = {"n": {"N": "1"}}
    >>> rows = Rows(a=row, b=row)
    >>> rows.pack("a", row)
    >>> encoded(as_json({"p": rows}))
    b'{"p":{"a":{"n":{"N":"1"}},"b":{"n":{"N":"1"}}}}'
    """
    return {
        pk: {sk: Fragment(row) if type(row) is bytes else row for sk, row in dict.items(rows)}
        for pk, rows in partitions.items()
    }
