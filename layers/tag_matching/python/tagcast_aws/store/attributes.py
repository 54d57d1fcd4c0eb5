"""Encodes row values in DynamoDB's typed JSON, and decodes them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any, cast

from tagcast.ports import Row
from tagcast.tables import Value


def to_attribute(value: Value) -> dict[str, Any]:
    """Return a value in DynamoDB's typed JSON.

    >>> to_attribute(3), to_attribute(["a"]), to_attribute({"k": "v"})
    ({'N': '3'}, {'L': [{'S': 'a'}]}, {'M': {'k': {'S': 'v'}}})
    """
    match value:
        case str():
            return {"S": value}
        case bool():
            raise TypeError("rows have no booleans")
        case int():
            return {"N": str(value)}
        case bytes():
            return {"B": value}
        case Mapping():
            return {"M": {name: {"S": text} for name, text in value.items()}}
        case None:
            return {"NULL": True}
        case _:
            return {"L": [{"S": text} for text in value]}


def from_attribute(attribute: Mapping[str, Any]) -> Value:
    """Return the value of DynamoDB's typed JSON; bytes may be base64.

    >>> from_attribute({"N": "3"}), from_attribute({"L": [{"S": "a"}]}), from_attribute({"B": "AP8="})
    (3, ['a'], b'\\x00\\xff')
    """
    ((kind, content),) = attribute.items()
    match kind:
        case "S":
            return cast("str", content)
        case "N":
            return int(content)
        case "B":
            return b64decode(content) if isinstance(content, str) else bytes(content)
        case "M":
            return {name: cast("str", item["S"]) for name, item in content.items()}
        case "L":
            return [cast("str", item["S"]) for item in content]
        case _:
            return None


def to_row(item: Mapping[str, Mapping[str, Any]]) -> Row:
    """Return a DynamoDB item as a row of the core."""
    return {name: from_attribute(attribute) for name, attribute in item.items()}
