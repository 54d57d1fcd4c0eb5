"""Row formats (key, encoder and decoder of one kind of row), and codecs between a dataclass and attributes.

An attribute has the name of its field, unless a :class:`RowPart` says otherwise. None and False are not stored.
docs/tables.md lists the attributes of each kind. A test compares the list with the rows that a long scenario writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, TypeVar, get_type_hints

from tagcast.setting import without_none
from tagcast.tables import Expectation, Key, Put, Store, Value

_T = TypeVar("_T")
_PLAIN = {str, int}
Read = Callable[[Any], Any]
Attributes = Mapping[str, Any]
"""The attributes of a row as read, each with the type that was written."""


@dataclass(frozen=True)
class RowFormat(Generic[_T]):
    """One kind of row. *key* builds a row's key. *row_of* encodes a value as attributes; *value_of* decodes a row."""

    key: Callable[..., Key]
    row_of: Callable[[_T], dict[str, Value]]
    value_of: Callable[[Attributes], _T]

    def read(self, store: Store, *named: str | int) -> _T | None:
        """Return the value of one row, or None if the row is missing. *named* are the arguments of *key*."""
        row = store.get(self.key(*named))
        return None if row is None else self.value_of(row)

    def put(self, value: _T, *named: str | int, expect: Expectation | None = None) -> Put:
        """Return the write of *value* to one row, under the condition *expect*. *named* are the arguments of *key*."""
        return Put(self.key(*named), self.row_of(value), expect or {})


@dataclass(frozen=True)
class RowPart:
    """How one field is stored. *attributes* encodes the field's value as attributes; *value* reads it from a row.

    An attribute whose value is None is not stored.
    """

    attributes: Callable[[Any], dict[str, Any]]
    value: Callable[[Attributes], Any]


def read_part(read: Callable[[Attributes], Any]) -> RowPart:
    """Return the part for a field that is not stored. *read* computes its value from the row, e.g. from the key."""
    return RowPart(lambda value: {}, read)


def named_part(name: str) -> RowPart:
    """Return the part for a field that is stored in the attribute *name*."""
    return RowPart(lambda value: {name: value}, lambda row: row[name])


def _same(value: Any) -> Any:
    return value


def optional_part(name: str, write: Read = _same, read: Read = _same, missing: Any = None) -> RowPart:
    """Return the part for a field in the attribute *name*. The value *missing* is not stored.

    *write* encodes any other value for the attribute; *read* reverses *write*.
    """
    return RowPart(
        lambda value: {name: None if value == missing else write(value)},
        lambda row: read(row[name]) if name in row else missing,
    )


def list_part(name: str) -> RowPart:
    """Return the part for a tuple of texts that is stored in the attribute *name*. An empty tuple is not stored."""
    return optional_part(name, list, tuple, ())


FROM_KEY = read_part(lambda row: row["sk"])


def key_part(name: str, place: int, read: Read = _same) -> RowPart:
    """Return the part for a field in a key: the text number *place*, from 0, between the ``#`` of *name* (pk or sk).

    *read* converts this text to the field's value.
    """
    return read_part(lambda row: read(row[name].split("#")[place]))


def json_part(name: str, write: Read = _same, read: Read = _same) -> RowPart:
    """Return the part for a field that is stored as JSON in the attribute *name*; None is not stored.

    *write* converts the field to a JSON value; *read* reverses *write*.
    """
    return optional_part(
        name, lambda value: json.dumps(write(value), sort_keys=True), lambda text: read(json.loads(text))
    )


class Codec(Generic[_T]):
    """Writes values of *kind* as attributes, and reads the values from attributes.

    *parts* maps the name of a field to its part. A field needs a part if it is an object, or is not stored under its
    own name. If the part is a codec, the fields of the object are attributes of the row. The fields in *elsewhere*
    are not in the row.
    """

    def __init__(
        self,
        kind: type[_T],
        parts: Mapping[str, RowPart | Codec[Any]] | None = None,
        elsewhere: Iterable[str] = (),
    ) -> None:
        self._kind = kind
        self._parts = parts or {}
        self._elsewhere = frozenset(elsewhere)

    @cached_property
    def _readers(self) -> dict[str, Read]:
        """The readers of the scalar fields, by name. Types are resolved at the first use, not at the import."""
        hints = get_type_hints(self._kind)
        found: dict[str, Read] = {}
        for each in fields(self._kind):  # type: ignore[arg-type]
            if each.name in self._parts or each.name in self._elsewhere:
                continue
            hint = hints[each.name]
            type_, is_optional = (hint, False) if isinstance(hint, type) else without_none(hint)
            if (is_optional and each.default is not None) or (type_ is bool and each.default is not False):
                raise TypeError(f"{each.name}: a missing attribute means None or False, so that has to be its default")
            found[each.name] = type_
        return found

    def attributes(self, value: _T) -> dict[str, Any]:
        """Return all attributes of *value*, by name. An attribute that is not stored has the value None."""
        found: dict[str, Any] = {}
        for name, part in self._parts.items():
            found.update(part.attributes(getattr(value, name)))
        for name in self._readers:
            one = getattr(value, name)
            found[name] = one if one is None or one.__class__ in _PLAIN else _stored_value(one)
        return found

    def value(self, row: Attributes) -> _T:
        """Return the value in a row. A field whose attribute is missing gets its default, or the value of its part."""
        return self._kind(**self.fields(row))

    def fields(self, row: Attributes) -> dict[str, Any]:
        """Return the fields in a row, by name. A field without an entry in *parts* is left out if it is not stored."""
        given = {name: read(row[name]) for name, read in self._readers.items() if name in row}
        for name, part in self._parts.items():
            given[name] = part.value(row)
        return given


def _stored_value(value: Any) -> Value:
    if isinstance(value, bool):
        return 1 if value else None
    if isinstance(value, StrEnum):
        return value.value
    return str(value) if isinstance(value, float) else value


def row_format(
    key: Callable[..., Key], codec: Codec[_T], also: Callable[[_T], Mapping[str, Value]] = lambda value: {}
) -> RowFormat[_T]:
    """Return the format of rows with the attributes of *codec*.

    The callback *also* returns further attributes for a value, such as ``ttl``. They are written, but not decoded.
    """
    return RowFormat(key, lambda value: dense({**codec.attributes(value), **also(value)}), codec.value)


def dense(row: Mapping[str, Value]) -> dict[str, Value]:
    """Return the attributes whose value is not None."""
    return {name: value for name, value in row.items() if value is not None}
