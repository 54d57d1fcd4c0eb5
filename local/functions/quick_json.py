"""Fast JSON by orjson. Python's `json` handles the values that orjson does not support, and reports errors."""

import json
from collections.abc import Callable
from typing import Any

import orjson


def encode(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """Return a value as JSON. *default* converts objects that JSON does not have.

    orjson writes no spaces. Python's `json`, which does, encodes keys that are not text, numbers beyond 64 bits, and
    lone surrogates.

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
