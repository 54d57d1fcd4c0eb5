"""JSON of calls and events, by orjson; what orjson does not take, Python's own module does, or says what is wrong."""

import json
from collections.abc import Callable
from typing import Any

import orjson


def encoded(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """The JSON text of a value, without spaces; *default* says what stands for an object that JSON has not.

    Keys that are no text, numbers beyond 64 bits and halves of surrogate pairs are as Python writes them.

    >>> encoded({"a": [1, "é"]}).decode(), encoded({1: 1 << 64}), encoded("\\ud800")
    ('{"a":[1,"é"]}', b'{"1": 18446744073709551616}', b'"\\\\ud800"')
    """
    try:
        return orjson.dumps(value, default)
    except TypeError:
        return json.dumps(value, default=default).encode()


def decoded(text: bytes | bytearray | str) -> Any:
    """The value of a JSON text; json.JSONDecodeError if it is none.

    >>> decoded(b'{"a": 1}'), decoded('"\\\\ud800"')
    ({'a': 1}, '\\ud800')
    """
    try:
        return orjson.loads(text)
    except ValueError:
        return json.loads(text)
