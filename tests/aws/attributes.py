"""Values of DynamoDB in their typed JSON: how large they are, how they compare, which of them are allowed.

Values are never changed in place, so that images, rows and answers may share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from tests.aws import limits
from tests.aws.faults import ApiError, UnplayedError

Attribute = Mapping[str, Any]
Item = dict[str, Attribute]
EXACT = Context(prec=2 * limits.NUMBER_DIGITS_MAX)
"""Arithmetic that loses no digit of what DynamoDB keeps."""


def invalid(message: str) -> ApiError:
    """DynamoDB's answer to a request that breaks a rule."""
    return ApiError("ValidationException", message)


def text_bytes(text: str) -> int:
    """How many bytes a text has in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def number_bytes(text: str) -> int:
    """About how many bytes a number takes: one for two significant digits, and one (CapacityUnitCalculations)."""
    if text.isdecimal():
        return (len(text.rstrip("0")) + 1) // 2 + 1
    digits = text.lstrip("-").replace(".", "").strip("0")
    return (len(digits) + 1) // 2 + 1 + text.startswith("-")


def size_of(attribute: Attribute) -> int:
    """The size of a value."""
    ((kind, content),) = attribute.items()
    match kind:
        case "S":
            return text_bytes(content)
        case "N":
            return number_bytes(content)
        case "B":
            return len(content)
        case "L":
            return 3 + sum(1 + size_of(each) for each in content)
        case "M":
            return 3 + sum(1 + text_bytes(name) + size_of(each) for name, each in content.items())
        case _:
            return 1


def item_bytes(item: Mapping[str, Attribute]) -> int:
    """The size of an item: the names of its attributes and their values."""
    total = 0
    for name, attribute in item.items():
        text = attribute.get("S")
        size = size_of(attribute) if text is None or not text.isascii() else len(text)
        total += size + (len(name) if name.isascii() else len(name.encode()))
    return total


def number(text: str) -> Decimal:
    """A number as DynamoDB takes it: up to 38 digits."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise invalid(f"The parameter cannot be converted to a numeric value: {text}") from None
    if not value.is_finite():
        raise invalid(f"The parameter cannot be converted to a numeric value: {text}")
    if len(EXACT.normalize(value).as_tuple().digits) > limits.NUMBER_DIGITS_MAX:
        raise invalid("Attempting to store more than 38 significant digits in a Number")
    return value


def plain_number(value: Decimal) -> str:
    """A number as DynamoDB answers it: without exponent, leading or trailing zeros."""
    text = format(EXACT.normalize(value), "f")
    return "0" if text == "-0" else text


def checked(attribute: Attribute, depth: int = 0) -> Attribute:
    """The value as it is stored: checked, numbers in their plain form, nested values copied."""
    if len(attribute) != 1:
        raise invalid("Supplied AttributeValue has more than one datatypes set, must contain exactly one")
    if depth > limits.NESTING_MAX:
        raise invalid("Nesting Levels have exceeded supported limits")
    ((kind, content),) = attribute.items()
    match kind:
        case "N":
            if (
                content.isdecimal()
                and len(content) < limits.NUMBER_DIGITS_MAX
                and (content[0] != "0" or content == "0")
            ):
                return attribute
            return {"N": plain_number(number(content))}
        case "L":
            return {"L": [checked(each, depth + 1) for each in content]}
        case "M":
            return {"M": {name: checked(each, depth + 1) for name, each in content.items()}}
        case "SS" | "NS" | "BS":
            raise UnplayedError("the box has no sets")
        case "B":
            return attribute if isinstance(content, bytes) else {"B": bytes(content)}
        case "NULL" if content is not True:
            raise invalid(
                "One or more parameter values were invalid: Null attribute value types must have the value true"
            )
    return attribute


def comparable(attribute: Attribute) -> Any:
    """The content of a value by which equal ones are equal and S, N and B are ordered."""
    ((kind, content),) = attribute.items()
    return content if kind != "N" else int(content) if content.isdecimal() else number(content)


def equal(one: Attribute, other: Attribute) -> bool:
    """Whether two values are equal; values of different types are not."""
    if one == other:
        return True
    ((kind, _),) = one.items()
    return kind == "N" and "N" in other and bool(comparable(one) == comparable(other))


def precedes(one: Attribute, other: Attribute) -> bool | None:
    """Whether *one* < *other*; None where the two have no order."""
    ((kind, _),) = one.items()
    if kind not in other or kind not in ("S", "N", "B"):
        return None
    return bool(comparable(one) < comparable(other))


def read_units(size: int, *, consistent: bool) -> float:
    """Read units of so many bytes: one for 4 KB, half of that when the read is eventual."""
    units = max(1, -(-size // limits.READ_UNIT_BYTES))
    return float(units) if consistent else units / 2


def write_units(size: int) -> int:
    """Write units of so many bytes: one for 1 KB."""
    return max(1, -(-size // limits.WRITE_UNIT_BYTES))
