"""What DynamoDB counts for an item, from its documentation ("DynamoDB item sizes and formats"), apart from the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tagcast.ports import Row
from tagcast_aws.store.attributes import to_attribute

ITEM_BYTES_MAX = 400 * 1024


def row_size(row: Row) -> int:
    """Return the size of a row that has its keys."""
    return item_size({name: to_attribute(value) for name, value in row.items()})


def item_size(item: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(len(name.encode()) + _attribute_size(attribute) for name, attribute in item.items())


def _attribute_size(attribute: Mapping[str, Any]) -> int:
    ((kind, content),) = attribute.items()
    if kind == "S":
        return len(str(content).encode())
    if kind == "B":
        return len(bytes(content))
    if kind == "N":
        digits = str(content).lstrip("-").strip("0") or "0"
        return 1 + (len(digits) + 1) // 2 + str(content).startswith("-")
    if kind in ("NULL", "BOOL"):
        return 1
    if kind == "L":
        return 3 + sum(1 + _attribute_size(each) for each in content)
    assert kind == "M", kind
    return 3 + sum(1 + len(name.encode()) + _attribute_size(each) for name, each in content.items())
