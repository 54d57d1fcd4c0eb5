"""The size of an event pattern, counted without parsing the pattern: an estimate of the work of indexing it."""

from __future__ import annotations

from collections.abc import Mapping


def count_values(pattern: Mapping[str, object]) -> tuple[int, int]:
    """Return the number of alternatives of an event pattern, and the number of values in all alternatives together.

    >>> count_values({"$or": [{"a": [1, 2]}, {"b": [3], "c": [{"anything-but": [4, 5]}]}], "d": {"e": [6]}})
    (2, 7)
    """
    alternatives, values = 1, 0
    for name, value in pattern.items():
        if name == "$or" and isinstance(value, list):
            parts = [count_values(each) for each in value if isinstance(each, Mapping)]
        elif isinstance(value, Mapping):
            parts = [count_values(value)]
        else:
            parts = [(1, _size(value))]
        # Each alternative so far is combined with each alternative of this member.
        count = sum(part for part, _ in parts) or 1
        alternatives, values = alternatives * count, values * count + alternatives * sum(size for _, size in parts)
    return alternatives, values


def _size(value: object) -> int:
    """Return the number of scalars in *value*, at any depth of lists and objects."""
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list) else 1
