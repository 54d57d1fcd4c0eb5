"""Converts the explanation of a filter's result to lines of a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LINES_SHOWN = 200
DEPTH_SHOWN = 12
WORDS: Mapping[object, str] = {True: "true", False: "false", None: "unknown", "skipped": "not reached"}


@dataclass(frozen=True)
class VerdictLine:
    """One line of an explanation. *text* is a part of the filter, and *depth* the indentation of the line.

    *value* is the result of this part in words. *note* explains the result; it may be empty.
    """

    depth: int
    text: str
    value: str
    note: str


def lines(tree: Mapping[str, Any]) -> list[VerdictLine]:
    """Return the first :data:`LINES_SHOWN` nodes of *tree*, each parent before its children.

    The loop replaces recursion, because filters nest too deep for Python.

    >>> [(line.depth, line.value) for line in lines({"text": "a AND b", "value": None, "note": "", "children": [
    ...     {"text": "a", "value": True, "note": "", "children": []}]})]
    [(0, 'unknown'), (1, 'true')]
    """
    found: list[VerdictLine] = []
    waiting = [(0, tree)]
    while waiting and len(found) < LINES_SHOWN:
        depth, node = waiting.pop()
        value = node.get("value")
        word = WORDS.get(value) if isinstance(value, bool | str | None) else None
        found.append(
            VerdictLine(
                min(depth, DEPTH_SHOWN), str(node.get("text", "")), word or str(value), str(node.get("note", ""))
            )
        )
        waiting += [(depth + 1, child) for child in reversed(node.get("children", ()))]
    return found
