"""Splits batches by the API's limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tagcast_client.instants import json_default

BATCH_MESSAGES_MAX = 100
BATCH_BYTES_MAX = 4 * 1024 * 1024
BATCH_VALUES_MAX = 20_000
ENCODED_BYTES_MAX = 5_500_000
"""The maximum bytes of a body as a JSON string, as Lambda gets and returns it: quotes and backslashes count twice."""
_AROUND = '{"subscriptions": [], "replace": false}'
_TEXT = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"')


def parts(items: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Sequence[Mapping[str, Any]]]]:
    """Split a batch by the API's limits. Yield each part as a pair: the place of its first item, and its items.

    An item above the size limit is a part of its own; the API refuses that part.

    >>> [(place, len(part)) for place, part in parts([{"body": "x"}] * 250)]
    [(0, 100), (100, 100), (200, 50)]
    """
    start, size, values = 0, _size(_AROUND), _values(_AROUND)
    for place, item in enumerate(items):
        text = json.dumps(item, default=json_default) + ", "  # An upper bound: `Operation.content` escapes less.
        size, values = size + _size(text), values + _values(text)
        is_full = place - start == BATCH_MESSAGES_MAX or size > BATCH_BYTES_MAX or values > BATCH_VALUES_MAX
        if is_full and place > start:
            yield start, items[start:place]
            start, size, values = place, _size(_AROUND + text), _values(_AROUND + text)
    if start < len(items):
        yield start, items[start:]


def _size(text: str) -> int:
    """Return the bytes of *text* that count towards the size limit of a request.

    >>> _size("x" * 99), _size('"' * 99)
    (99, 151)
    """
    encoded = len(text) + text.count('"') + text.count("\\")
    return max(len(text), -(-encoded * BATCH_BYTES_MAX // ENCODED_BYTES_MAX))


def _values(text: str) -> int:
    """Return the number of values in *text*, by the rule of the limit: one for each comma and opening bracket.

    >>> _values('{"a": ["b,", []]}, ')
    5
    """
    return sum(map(_TEXT.sub("", text).count, ",[{"))


def named_again(items: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    """Return the places of items that repeat the name of an earlier item.

    If two such items were sent in separate requests, the later one would replace the earlier one, or be refused.

    >>> named_again([{"name": "a"}, {"name": "b"}, {"name": "a"}, {}, {}])
    (2,)
    """
    names, first = [item.get("name") for item in items], dict[str, int]()
    return tuple(p for p, name in enumerate(names) if isinstance(name, str) and first.setdefault(name, p) != p)
