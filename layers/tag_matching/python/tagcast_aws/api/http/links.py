"""Links of the API document: operations that can use values of an answer (OpenAPI 3.1, Link Object)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_MADE: Mapping[str, Mapping[str, str]] = {
    "create_topic": {"topic": "$response.body#/name"},
    "create_subscription": {"topic": "$request.path.topic", "subscription": "$response.body#/name"},
    "publish": {"topic": "$request.path.topic", "message_id": "$response.body#/message_id"},
}
"""For each operation that creates a resource: the path parameters of the new resource."""

_WITHIN = {"create_topic": "create_subscription"}
"""Maps an operation that creates a resource to the operation that creates a named resource inside it."""


def links_of(name: str, operations: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the links from the operation *name* to others of *operations*, given as names and paths.

    Only an operation that creates a resource has links.

    >>> links_of("create_topic", [("get_topic", "/topics/{topic}"), ("health", "/health")])
    {'get_topic': {'operationId': 'get_topic', 'parameters': {'topic': '$response.body#/name'}}}
    """
    made = _MADE.get(name, {})
    return {
        other: {"operationId": other, "parameters": dict(made)}
        for other, path in operations
        if made and other != name and (set(re.findall(r"\{(\w+)\}", path)) == set(made) or _WITHIN.get(name) == other)
    }
