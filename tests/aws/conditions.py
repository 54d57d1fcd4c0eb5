"""Conditions and filters of DynamoDB, parsed once per text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from local.rules import limits
from tests.aws.attributes import Attribute, comparable, equal, invalid, precedes
from tests.aws.expressions import Names, Operand, Reader, Values

Test = Callable[[Mapping[str, Attribute], Names, Values], bool]
_FUNCTIONS = ("attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains")


@dataclass(frozen=True)
class Condition:
    """A parsed condition and the placeholders in it."""

    test: Test
    names: frozenset[str]
    marks: frozenset[str]


@lru_cache(4096)
def condition(text: str, kind: str = "ConditionExpression") -> Condition:
    """Parse a condition or a filter."""
    reader = Reader(text, kind)
    test = _either(reader)
    reader.end()
    return Condition(test, frozenset(reader.names), frozenset(reader.marks))


def _either(reader: Reader) -> Test:
    tests = [_all(reader)]
    while reader.ask("OR"):
        tests.append(_all(reader))
    if len(tests) == 1:
        return tests[0]
    return lambda item, names, values: any(test(item, names, values) for test in tests)


def _all(reader: Reader) -> Test:
    tests = [_one(reader)]
    while reader.ask("AND"):
        tests.append(_one(reader))
    if len(tests) == 1:
        return tests[0]
    return lambda item, names, values: all(test(item, names, values) for test in tests)


def _one(reader: Reader) -> Test:
    if reader.ask("NOT"):
        inner = _one(reader)
        return lambda item, names, values: not inner(item, names, values)
    if reader.ask("("):
        inner = _either(reader)
        reader.take(")")
        return inner
    if reader.peek() in _FUNCTIONS and reader.peek(1) == "(":
        return _function(reader)
    return _comparison(reader)


def _function(reader: Reader) -> Test:
    name = reader.take()
    reader.take("(")
    path = reader.path()
    if name in ("attribute_exists", "attribute_not_exists"):
        reader.take(")")
        there = name == "attribute_exists"
        return lambda item, names, values: (path(item, names, values) is not None) is there
    reader.take(",")
    other = reader.operand()
    reader.take(")")
    rule = {"attribute_type": _is_of_type, "begins_with": _begins_with, "contains": _contains}[name]

    def test(item: Mapping[str, Attribute], names: Names, values: Values) -> bool:
        one, two = path(item, names, values), other(item, names, values)
        return one is not None and two is not None and rule(one, two)

    return test


def _is_of_type(value: Attribute, kind: Attribute) -> bool:
    return kind.get("S") in value


def _begins_with(value: Attribute, prefix: Attribute) -> bool:
    ((kind, content),) = value.items()
    return kind in ("S", "B") and kind in prefix and bool(content.startswith(prefix[kind]))


def _contains(value: Attribute, part: Attribute) -> bool:
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return "S" in part and part["S"] in content
        case "L":
            return any(equal(each, part) for each in content)
        case "SS" | "NS" | "BS":
            return kind[0] in part and comparable(part) in comparable(value)
    return False


def _comparison(reader: Reader) -> Test:
    left = reader.operand()
    if reader.ask("BETWEEN"):
        low = reader.operand()
        reader.take("AND")
        return _between(left, low, reader.operand())
    if reader.ask("IN"):
        reader.take("(")
        options = [reader.operand()]
        while reader.ask(","):
            options.append(reader.operand())
        reader.take(")")
        if len(options) > limits.OPERANDS_OF_IN_MAX:
            raise invalid(f"Invalid {reader.kind}: The IN operator is given too many operands")
        return _among(left, options)
    sign = reader.take()
    if sign not in _SIGNS:
        raise reader.wrong(sign)
    rule, right = _SIGNS[sign], reader.operand()

    def test(item: Mapping[str, Attribute], names: Names, values: Values) -> bool:
        one, two = left(item, names, values), right(item, names, values)
        if one is None or two is None:
            return sign == "<>" and one is not two
        return rule(one, two)

    return test


_SIGNS: dict[str, Callable[[Attribute, Attribute], bool]] = {
    "=": equal,
    "<>": lambda one, two: not equal(one, two),
    "<": lambda one, two: bool(precedes(one, two)),
    ">": lambda one, two: bool(precedes(two, one)),
    "<=": lambda one, two: precedes(two, one) is False,
    ">=": lambda one, two: precedes(one, two) is False,
}


def _between(left: Operand, low: Operand, high: Operand) -> Test:
    def test(item: Mapping[str, Attribute], names: Names, values: Values) -> bool:
        found = left(item, names, values)
        bounds = low(item, names, values), high(item, names, values)
        if found is None or bounds[0] is None or bounds[1] is None:
            return False
        return precedes(found, bounds[0]) is False and precedes(bounds[1], found) is False

    return test


def _among(left: Operand, options: Sequence[Operand]) -> Test:
    def test(item: Mapping[str, Attribute], names: Names, values: Values) -> bool:
        found = left(item, names, values)
        if found is None:
            return False
        there = (option(item, names, values) for option in options)
        return any(each is not None and equal(found, each) for each in there)

    return test
