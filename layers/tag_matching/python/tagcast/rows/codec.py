"""The codec between a dataclass of settings and the attributes of its row.

An attribute has the name of its field. None and False are left out. Fields that are objects have a codec of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, TypeVar, get_type_hints

from tagcast.rows.kind import Attributes
from tagcast.setting import without_none

_T = TypeVar("_T")
_Value = str | int | list[str] | Mapping[str, str]
Read = Callable[[Any], Any]


@dataclass(frozen=True)
class Part:
    """How an object stands in a row: as these attributes. *read* returns None where they are absent."""

    names: tuple[str, ...]
    write: Callable[[Any], tuple[_Value | None, ...]]
    read: Callable[[Attributes], Any]


def json_part(name: str, write: Callable[[Any], Any] = lambda value: value, read: Read = lambda value: value) -> Part:
    """Return the part that keeps an object as JSON in one attribute."""
    return Part(
        (name,),
        lambda value: (None if value is None else json.dumps(write(value), sort_keys=True),),
        lambda row: read(json.loads(row[name])) if name in row else None,
    )


class Codec(Generic[_T]):
    """Writes values of *kind* as attributes, and reads them; *parts* are objects, *elsewhere* is in no row."""

    def __init__(self, kind: type[_T], parts: Mapping[str, Part] | None = None, elsewhere: Iterable[str] = ()) -> None:
        self._kind = kind
        self._parts = parts or {}
        self._elsewhere = frozenset(elsewhere)

    @cached_property
    def _readers(self) -> dict[str, Read]:
        """Return what reads each field that is no part. Types are looked up at the first use, not at the import."""
        hints = get_type_hints(self._kind)
        named = [each.name for each in fields(self._kind)]  # type: ignore[arg-type]
        return {
            name: _reader(without_none(hints[name])[0])
            for name in named
            if name not in self._parts and name not in self._elsewhere
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all attributes."""
        return (*(name for part in self._parts.values() for name in part.names), *self._readers)

    def attributes(self, value: _T) -> dict[str, _Value | None]:
        """Return every attribute of *value*, absent ones as None."""
        found: dict[str, _Value | None] = {}
        for name, part in self._parts.items():
            found.update(zip(part.names, part.write(getattr(value, name)), strict=True))
        for name in self._readers:
            one = getattr(value, name)
            found[name] = one if one is None or one.__class__ is str else _written(one)
        return found

    def value(self, row: Attributes) -> _T:
        """Return the value of a row; absent attributes are defaults."""
        return self._kind(**self.fields(row))

    def fields(self, row: Attributes) -> dict[str, Any]:
        """Return the fields in a row; absent attributes are left out."""
        given = {name: read(row[name]) for name, read in self._readers.items() if name in row}
        for name, part in self._parts.items():
            given[name] = part.read(row)
        return given


def _written(value: Any) -> _Value | None:
    if isinstance(value, bool):
        return 1 if value else None
    if isinstance(value, StrEnum):
        return value.value
    return str(value) if isinstance(value, float) else value


def _reader(type_: Any) -> Read:
    return bool if type_ is bool else type_
