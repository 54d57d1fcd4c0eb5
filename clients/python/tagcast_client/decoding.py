"""Decodes JSON to the classes of `models`, by their annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tagcast_client.body import body_of
from tagcast_client.errors import UnexpectedAnswerError

T = TypeVar("T")


def decode(kind: type[T], value: object) -> T:
    """Return *value* decoded to *kind*, which is a dataclass of `models` or the type of one of its fields.

    Raises UnexpectedAnswerError if *value* is not of this type.

    >>> from tagcast_client.models import Head
    >>> decode(Head, {"message_id": "1", "attempts": 2, "next_attempt_at": None, "invented_later": True})
    Head(message_id='1', attempts=2, next_attempt_at=None)
    """
    try:
        return cast("T", _decode(kind, value))
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        reason = f"{fault} is missing" if isinstance(fault, KeyError) else fault
        raise UnexpectedAnswerError(f"the API's answer cannot be read as {kind.__name__}: {reason}") from fault


def _decode(kind: Any, value: Any) -> Any:
    if is_dataclass(kind):
        return _dataclass(kind, value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        kinds = [each for each in inner if each is not NoneType]
        return value if value is None or len(kinds) > 1 else _decode(kinds[0], value)  # A union stays JSON.
    if origin is tuple:
        return tuple(_decode(inner[0], each) for each in value)
    if origin is Mapping:
        return {name: _decode(inner[1], each) for name, each in value.items()}
    if kind is float and type(value) is int:
        return float(value)
    expected = str if origin is Literal else kind  # Newer words are accepted, too.
    if kind is not Any and not isinstance(value, expected):
        raise TypeError(f"{value!r} is not a {expected.__name__}")
    return value


def _dataclass(kind: Any, value: Mapping[str, Any]) -> Any:
    known = _fields(kind)
    if "body" in known:
        value = {**value, "body": body_of(value)}
    present = {name: hint for name, (hint, is_needed) in known.items() if is_needed or name in value}
    return kind(**{name: _decode(hint, value[name]) for name, hint in present.items()})


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return the annotation of each field of a dataclass, and whether an answer must have the field."""
    hints = get_type_hints(kind)
    return {
        each.name: (hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(kind)
    }
