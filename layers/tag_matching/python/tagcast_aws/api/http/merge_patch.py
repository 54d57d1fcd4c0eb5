"""Merge patches of JSON (RFC 7396)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def apply_patch(present: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return *present* with a merge patch: null removes a field, objects are merged, other values replace.

    >>> present = {"retry": {"strategy": "BACKOFF_RETRY", "max_retries": 3}, "batch": {}}
    >>> apply_patch(present, {"retry": {"max_retries": 5}})
    {'retry': {'strategy': 'BACKOFF_RETRY', 'max_retries': 5}, 'batch': {}}
    >>> apply_patch({"filter": {"kind": "tags"}}, {"filter": None}), apply_patch({}, {"batch": {"max_bytes": None}})
    ({}, {'batch': {}})
    """
    result = dict(present)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            before = result.get(name)
            result[name] = apply_patch(before if isinstance(before, Mapping) else {}, value)
        else:
            result[name] = value
    return result
