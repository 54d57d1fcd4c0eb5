"""Splits batches by the API's limits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tagcast_client.instants import json_default

BATCH_MESSAGES_MAX = 100
BATCH_BYTES_MAX = 4 * 1024 * 1024
EVENT_BYTES_MAX = 6 * 1024 * 1024 - 64 * 1024
"""A function gets the body as a JSON text in an event, so quotes and backslashes count twice."""
_BATCH_BYTES_AROUND = len('{"subscriptions": [], "replace": false}')


def parts(items: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Sequence[Mapping[str, Any]]]]:
    """Split a batch by the API's limits. Yield each part with the place of its first item.

    An item above the size limit is a part of its own; the API refuses it.

    >>> [(place, len(part)) for place, part in parts([{"body": "x"}] * 250)]
    [(0, 100), (100, 100), (200, 50)]
    """
    start, size = 0, _BATCH_BYTES_AROUND
    for place, item in enumerate(items):
        more = _size(json.dumps(item, default=json_default) + ", ")  # At most: `Operation.content` escapes less.
        if place > start and (place - start == BATCH_MESSAGES_MAX or size + more > BATCH_BYTES_MAX):
            yield start, items[start:place]
            start, size = place, _BATCH_BYTES_AROUND
        size += more
    if start < len(items):
        yield start, items[start:]


def _size(text: str) -> int:
    """Return the bytes of *text* that count towards the size limit of a request.

    >>> _size("x" * 99), _size('"' * 99)
    (99, 134)
    """
    in_event = len(text) + text.count('"') + text.count("\\")
    return max(len(text), -(-in_event * BATCH_BYTES_MAX // EVENT_BYTES_MAX))


def named_again(items: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    """Return the places of items that repeat an earlier name.

    If they were sent in separate requests, the later item would replace the earlier, or be refused.

    >>> named_again([{"name": "a"}, {"name": "b"}, {"name": "a"}, {}, {}])
    (2,)
    """
    names, first = [item.get("name") for item in items], dict[str, int]()
    return tuple(p for p, name in enumerate(names) if isinstance(name, str) and first.setdefault(name, p) != p)
