"""Strict JSON: UTF-8, no repeated names, finite numbers, no trailing text; and the equality of its values."""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Callable
from typing import NoReturn

JSON_DEPTH_MAX = 100
JSON_VALUES_MAX = 20_000
"""The most values of a JSON text: more than a batch of the largest messages has, with all its fields."""
_WHOLE_MAX = 1 << 53
"""From this number on, a double stands for several integers."""
_OUTSIDE_TEXTS = rb'(?:[^",\[{]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+'
_CROWDED = re.compile(rb"(?:%b[,\[{]){%d}+" % (_OUTSIDE_TEXTS, JSON_VALUES_MAX + 1), re.DOTALL)
"""Matches JSON with too many values: each value but the first follows a comma or bracket outside texts."""


class MalformedError(Exception):
    """A text that is not valid JSON; *detail* is the reason, for people."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


def parse(content: bytes, number: Callable[[str], object] | None = None) -> object:
    """Return the value of *content*, a JSON text. Raises MalformedError.

    *number* converts numbers with a fraction or an exponent; by default they become floats. A text with more than
    :data:`JSON_VALUES_MAX` values is refused before parsing: 4 MiB of text may have a million values, which would take
    a hundred times as much memory.

    >>> parse(b'{"tags": ["apple"]}')
    {'tags': ['apple']}
    >>> parse(b'{"a": 1, "a": 2}')  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ...
    MalformedError: the body has the name "a" twice in one object
    >>> parse(b"\\xef\\xbb\\xbf{}")
    Traceback (most recent call last):
    ...
    tagcast.strict_json.MalformedError: the body begins with a byte order mark; send UTF-8 without it
    """
    if len(content) > JSON_VALUES_MAX and _CROWDED.match(content):
        raise MalformedError(f"the body has more than {JSON_VALUES_MAX} values")
    if content.startswith(BOM_UTF8):
        raise MalformedError("the body begins with a byte order mark; send UTF-8 without it")
    try:
        value: object = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=number or _finite,
        )
    except UnicodeDecodeError as error:
        raise MalformedError(f"the body is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise MalformedError(f"the body is not JSON (line {error.lineno}, column {error.colno}: {error.msg})") from None
    except RecursionError:
        raise MalformedError("the body is nested too deeply") from None
    except ValueError:
        raise MalformedError("the body has a number that is too long") from None
    _refuse_depth(value)
    if b"\\u" in content:
        _refuse_surrogates(value)
    return value


def same_json(one: object, other: object) -> bool:
    """Return whether two values are the same in JSON. There ``1`` does not equal ``True``, unlike in Python.

    >>> same_json({"a": 1, "b": []}, {"b": [], "a": 1}), same_json([1], [True])
    (True, False)
    """
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise MalformedError(f"the body has the name {json.dumps(name[:64])} twice in one object")
            seen.add(name)
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedError(f"the body has {name}, which is not JSON")


def _finite(text: str) -> float | int:
    """Return a number with a fraction or exponent; an integral number becomes an int, as in JSON Schema.

    >>> _finite("1787.0"), _finite("1.5e1"), _finite("1.5")
    (1787, 15, 1.5)
    """
    number = float(text)
    if not math.isfinite(number):
        raise MalformedError("the body has a number that is too large")
    return int(number) if number.is_integer() and abs(number) < _WHOLE_MAX else number


def _refuse_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(JSON_DEPTH_MAX):
        level = [inner for outer in level if isinstance(outer, dict | list) for inner in _inside(outer)]
        if not level:
            return
    raise MalformedError("the body is nested too deeply")


def _inside(outer: dict[str, object] | list[object]) -> list[object]:
    members = outer.values() if isinstance(outer, dict) else outer
    return [member for member in members if isinstance(member, dict | list)]


def _refuse_surrogates(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise MalformedError("the body has an unpaired surrogate, which is not text") from None
