"""Spares the engine's tables work that they do again for every call: copies, and what the same text means.

A copy of an item is made for each look at it, by the general `deepcopy`; numbers and expressions are read several times
in every call, and the service has few different expressions.
"""

import copy
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache, wraps
from types import ModuleType, SimpleNamespace
from typing import Any

REMEMBERED = 5_000
"""Of each kind of text: those of the last hundreds of messages, which are asked for several times each."""
OF_A_TEXT = ("_ddb_canonicalize_number", "_number_error", "_number_size_bytes")
"""Functions of the engine of one text and of nothing else; what is no text they judge themselves."""
ATOMS = frozenset((str, int, float, bool, bytes, type(None)))


def install(tables: ModuleType) -> None:
    """Have the engine's service of tables remember what texts mean, and copy what is JSON as such."""
    for name in OF_A_TEXT:
        setattr(tables, name, of_a_text(getattr(tables, name)))
    tables._condition_syntax_error = lru_cache(REMEMBERED)(tables._condition_syntax_error)  # type: ignore[attr-defined]
    tables._tokenize = of_a_text(tables._tokenize, list)  # type: ignore[attr-defined]
    tables.copy = SimpleNamespace(deepcopy=deep_copy)  # type: ignore[attr-defined]


def of_a_text(
    function: Callable[[Any], Any], given: Callable[[Any], Any] = lambda found: found
) -> Callable[[Any], Any]:
    """A function that remembers what it found of texts; *given* makes of it what a caller may change.

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
    """A copy that shares nothing that can be changed: of JSON at once, of anything else as Python does.

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
