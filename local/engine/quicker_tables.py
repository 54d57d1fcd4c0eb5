"""Speeds up the engine's tables: fewer copies, and cached parsing.

The engine copies an item for each read, by the general `deepcopy`, and parses numbers and expressions several times per
call, although the service has few different expressions.
"""

import copy
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache, wraps
from types import ModuleType, SimpleNamespace
from typing import Any

REMEMBERED = 5_000
"""Cached texts of each kind: those of the last hundreds of messages, each parsed several times."""
OF_A_TEXT = ("_ddb_canonicalize_number", "_number_error", "_number_size_bytes")
"""Pure functions of the engine with one text argument; other arguments are passed through."""
ATOMS = frozenset((str, int, float, bool, bytes, type(None)))


def install(tables: ModuleType) -> None:
    """Make the engine's table service cache parsed texts, and copy JSON quickly."""
    for name in OF_A_TEXT:
        setattr(tables, name, of_a_text(getattr(tables, name)))
    tables._condition_syntax_error = lru_cache(REMEMBERED)(tables._condition_syntax_error)  # type: ignore[attr-defined]
    tables._tokenize = of_a_text(tables._tokenize, list)  # type: ignore[attr-defined]
    tables.copy = SimpleNamespace(deepcopy=deep_copy)  # type: ignore[attr-defined]


def of_a_text(
    function: Callable[[Any], Any], given: Callable[[Any], Any] = lambda found: found
) -> Callable[[Any], Any]:
    """Cache a function's results by its text argument. *given* copies a result that callers may change.

    >>> twice = of_a_text(lambda text: [text, text], list)
    >>> twice("a").pop(), twice("a"), twice(None)
    ('a', ['a', 'a'], [None, None])
    """
    remembered = lru_cache(REMEMBERED)(function)

    @wraps(function)
    def found(text: Any) -> Any:
        return given(remembered(text)) if isinstance(text, str) else function(text)

    return found


def deep_copy(value: Any) -> Any:
    """Return a deep copy: fast for JSON, else Python's.

    >>> item = {"a": {"L": [{"S": "x"}]}}
    >>> copied = deep_copy(item)
    >>> copied == item, copied["a"]["L"] is item["a"]["L"]
    (True, False)
    """
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is dict:
        return {name: each if type(each) in ATOMS else deep_copy(each) for name, each in value.items()}
    if kind is list:
        return [deep_copy(each) for each in value]
    if kind is defaultdict:
        return defaultdict(value.default_factory, {name: deep_copy(each) for name, each in value.items()})
    return copy.deepcopy(value)
