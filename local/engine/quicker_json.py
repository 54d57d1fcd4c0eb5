"""Has the engine's services read and write JSON by orjson: half of what a call took them was this."""

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

from local.functions.quick_json import decoded, encoded

FORM_ONLY = frozenset(("ensure_ascii", "separators"))
"""Options that say how the same JSON is written: nobody who is answered looks at that."""


def install(*modules: ModuleType) -> None:
    """Exchange what these modules of the engine know as `json`."""
    for module in modules:
        module.json = QuickerJson  # type: ignore[attr-defined]


class QuickerJson:
    """What the engine uses of Python's module of that name."""

    JSONDecodeError = json.JSONDecodeError
    JSONDecoder = json.JSONDecoder
    dump = staticmethod(json.dump)

    @staticmethod
    def dumps(value: Any, *, default: Callable[[Any], Any] | None = None, **how: Any) -> str:
        """The JSON text of a value: without spaces, unless more is asked for than its form.

        >>> QuickerJson.dumps({"a": [1, "é"]}, ensure_ascii=False), QuickerJson.dumps({"b": 1, "a": 2}, sort_keys=True)
        ('{"a":[1,"é"]}', '{"a": 2, "b": 1}')
        """
        if how.keys() <= FORM_ONLY:
            return encoded(value, default).decode()
        return json.dumps(value, default=default, **how)

    @staticmethod
    def loads(text: bytes | bytearray | str, **how: Any) -> Any:
        """The value of a JSON text."""
        return json.loads(text, **how) if how else decoded(text)
