"""Makes the engine faster by orjson. Tables also copy less, cache parsed texts, and read only the page of a query.

The unchanged engine spends half of a call's time on JSON. It copies each item that it reads by the slow `deepcopy`. It
parses numbers and expressions several times per call, although the service has few expressions. For each query it sorts
the whole partition, and evaluates the condition row by row.
"""

import copy
import json
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache, wraps
from types import ModuleType, SimpleNamespace
from typing import Any

from local.functions.quick_json import decode, encode

REMEMBERED = 5_000
"""The maximum number of cached texts of each kind, enough for the last few hundred messages."""
OF_A_TEXT = ("_ddb_canonicalize_number", "_number_error", "_number_size_bytes")
"""Pure functions of the engine with one text argument. Results of other arguments are not cached."""
RANGE = "pk = :pk AND sk BETWEEN :low AND :high"
"""The key condition of each query of tagcast on a table. Queries on an index have another condition."""
PAGE_BYTES_MAX = 1024 * 1024
ATOMS = frozenset((str, int, float, bool, bytes, type(None)))


def install_tables(tables: ModuleType) -> None:
    """Change *tables*, the engine's module for DynamoDB, to cache parsed texts, copy quickly and narrow queries."""
    for name in OF_A_TEXT:
        setattr(tables, name, cache_text_results(getattr(tables, name)))
    tables._condition_syntax_error = lru_cache(REMEMBERED)(tables._condition_syntax_error)  # type: ignore[attr-defined]
    tables._tokenize = cache_text_results(tables._tokenize, list)  # type: ignore[attr-defined]
    tables.copy = SimpleNamespace(deepcopy=deep_copy)  # type: ignore[attr-defined]
    Narrowing(tables).install()


class Narrowing:
    """Makes queries with the key condition :data:`RANGE` faster. The engine sees only rows that can be in the page."""

    def __init__(self, tables: ModuleType) -> None:
        self._tables = tables
        self._query, self._evaluate = tables._query, tables._evaluate_condition
        self._is_narrow = False

    def install(self) -> None:
        """Wrap the functions that query a table and evaluate a condition."""
        self._tables._query = self.query  # type: ignore[attr-defined]
        self._tables._evaluate_condition = self.evaluate  # type: ignore[attr-defined]

    def query(self, request: dict[str, Any]) -> Any:
        """Answer a query. The engine answers one query at a time, so no other query sees the narrowed rows."""
        table = self._tables._tables.get(request.get("TableName"))
        if table is None or request.get("KeyConditionExpression") != RANGE or not request.get("ScanIndexForward", True):
            return self._query(request)
        values = request["ExpressionAttributeValues"]
        pk, low, high = (values[name].get("S") for name in (":pk", ":low", ":high"))
        everything, rows = table["items"], table["items"].get(pk)
        if rows is None or not (isinstance(low, str) and isinstance(high, str)):
            return self._query(request)
        after = request.get("ExclusiveStartKey", {}).get("sk", {}).get("S", "")
        keys = sorted(key for key in rows if low <= key <= high and key > after)
        most = min(int(request.get("Limit", PAGE_BYTES_MAX)), PAGE_BYTES_MAX // len(pk) + 1)
        table["items"], self._is_narrow = {pk: {key: rows[key] for key in keys[:most]}}, True
        try:
            return self._query(request)
        finally:
            table["items"], self._is_narrow = everything, False

    def evaluate(self, condition: str, *arguments: Any, **options: Any) -> Any:
        """Evaluate a condition. A narrowed query's key condition is True, because all remaining rows match it."""
        if self._is_narrow and options.get("slot") == "KeyConditionExpression":
            return True
        return self._evaluate(condition, *arguments, **options)


def cache_text_results(
    function: Callable[[Any], Any], given: Callable[[Any], Any] = lambda found: found
) -> Callable[[Any], Any]:
    """Wrap *function* to cache its results for text arguments. *given* makes what callers get from a cached result.

    *given* must copy a result that callers may change. By default they get the cached result itself.

    >>> twice = cache_text_results(lambda text: [text, text], list)
    >>> twice("a").pop(), twice("a"), twice(None)
    ('a', ['a', 'a'], [None, None])
    """
    remembered = lru_cache(REMEMBERED)(function)

    @wraps(function)
    def look_up(text: Any) -> Any:
        return given(remembered(text)) if isinstance(text, str) else function(text)

    return look_up


def deep_copy(value: Any) -> Any:
    """Return a deep copy. Values of JSON are copied by fast code, others by Python's `deepcopy`.

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


FORM_ONLY = frozenset(("ensure_ascii", "separators"))
"""Options that only affect the form of the JSON, which no client depends on."""


def dumps(value: Any, *, default: Callable[[Any], Any] | None = None, **how: Any) -> str:
    """Return a value as JSON, with the options of `json.dumps`. If all options are in :data:`FORM_ONLY`, omit spaces.

    >>> dumps({"a": [1, "é"]}, ensure_ascii=False), dumps({"b": 1, "a": 2}, sort_keys=True)
    ('{"a":[1,"é"]}', '{"a": 2, "b": 1}')
    """
    if how.keys() <= FORM_ONLY:
        return encode(value, default).decode()
    return json.dumps(value, default=default, **how)


def loads(text: bytes | bytearray | str, **how: Any) -> Any:
    """Return the value of a JSON text, as `json.loads` does."""
    return json.loads(text, **how) if how else decode(text)


def install_json(*modules: ModuleType) -> None:
    """Let *modules* of the engine use the fast functions of this module instead of Python's `json`."""
    for module in modules:
        module.json = SimpleNamespace(**{**vars(json), "dumps": dumps, "loads": loads})  # type: ignore[attr-defined]
