"""From JSON to the values of `models`, by their annotations."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from tagcast_client.body import body_of
from tagcast_client.errors import UnexpectedAnswerError

T = TypeVar("T")


def decode(kind: type[T], value: object) -> T:
    """Return *value* as a *kind*: a dataclass of `models` or anything in one. Raises UnexpectedAnswerError.

    >>> from tagcast_client.models import Head
    >>> decode(Head, {"message_id": "1", "attempts": 2, "next_attempt_at": None, "invented_later": True})
    Head(message_id='1', attempts=2, next_attempt_at=None)
    """
    try:
        return cast("T", _decode(kind, value))
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise UnexpectedAnswerError(f"the API's answer is not a {kind.__name__}: {fault!r}") from fault


def _decode(kind: Any, value: Any) -> Any:
    if is_dataclass(kind):
        return _dataclass(kind, value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:  # A word, also one that is newer.
        origin, kind = None, str
    if origin in (Union, types.UnionType):
        kinds = [each for each in inner if each is not type(None)]
        if value is None or all(map(is_typeddict, kinds)):  # An object of JSON, also one of a kind that is newer.
            return value
        [only] = kinds
        return _decode(only, value)
    if origin is tuple:
        return tuple(_decode(inner[0], each) for each in value)
    if origin is Mapping:
        return {name: _decode(inner[1], each) for name, each in value.items()}
    if kind is not Any and not isinstance(value, kind):
        raise TypeError(f"{value!r} is not a {kind.__name__}")
    return value


def _dataclass(kind: Any, value: Mapping[str, Any]) -> Any:
    found = {}
    for name, hint, is_required in _fields(kind):
        if name == "body":
            found[name] = body_of(value)
            if found[name] is None and hint is bytes:
                raise KeyError(name)
        elif name in value or is_required:
            found[name] = _decode(hint, value[name])
    return kind(**found)


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (each.name, hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(kind)
    )
