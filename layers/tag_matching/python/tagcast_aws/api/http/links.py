"""Links of the API document: with what an answer names, these operations go on (OpenAPI 3.1, Link Object)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_MADE: Mapping[str, Mapping[str, str]] = {
    "create_topic": {"topic": "$response.body#/name"},
    "create_subscription": {"topic": "$request.path.topic", "subscription": "$response.body#/name"},
    "publish": {"topic": "$request.path.topic", "message_id": "$response.body#/message_id"},
}
"""What an operation makes, as the parameters of paths that lead to it."""

_WITHIN = {"create_topic": "create_subscription"}
"""What is made within it, under a name of its own."""


def links_of(name: str, operations: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the links of an operation among *operations*, each a name and a path; none for what makes nothing.

    >>> links_of("create_topic", [("get_topic", "/topics/{topic}"), ("health", "/health")])
    {'get_topic': {'operationId': 'get_topic', 'parameters': {'topic': '$response.body#/name'}}}
    """
    made = _MADE.get(name, {})
    return {
        other: {"operationId": other, "parameters": dict(made)}
        for other, path in operations
        if made and other != name and (set(re.findall(r"\{(\w+)\}", path)) == set(made) or _WITHIN.get(name) == other)
    }
