"""JSON of calls and events by orjson, with Python's module as the fallback for special values and errors."""

import json
from collections.abc import Callable
from typing import Any

import orjson


def encode(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """Return the JSON text of a value, without spaces; *default* converts other objects.

    Keys that are no text, numbers beyond 64 bits and lone surrogates are encoded by Python's module.

    >>> encode({"a": [1, "é"]}).decode(), encode({1: 1 << 64}), encode("\\ud800")
    ('{"a":[1,"é"]}', b'{"1": 18446744073709551616}', b'"\\\\ud800"')
    """
    try:
        return orjson.dumps(value, default)
    except TypeError:
        return json.dumps(value, default=default).encode()


def decode(text: bytes | bytearray | str) -> Any:
    """Return the value of a JSON text. Raises json.JSONDecodeError.

    >>> decode(b'{"a": 1}'), decode('"\\\\ud800"')
    ({'a': 1}, '\\ud800')
    """
    try:
        return orjson.loads(text)
    except ValueError:
        return json.loads(text)
