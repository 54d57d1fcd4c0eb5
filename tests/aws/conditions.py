"""Conditions and filters of DynamoDB in the forms that the shipped code asks for, parsed once per text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tests.aws.attributes import Attribute, equal, precedes
from tests.aws.expressions import Names, Reader, Values, resolved
from tests.aws.faults import UnplayedError

Test = Callable[[Mapping[str, Attribute], Names, Values], bool]


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
    if reader.ask("("):
        inner = _either(reader)
        reader.take(")")
        return inner
    if reader.peek() in ("attribute_exists", "attribute_not_exists", "begins_with"):
        return _function(reader.take(), reader)
    left, sign = reader.operand(), reader.take()
    if sign not in _SIGNS:
        raise UnplayedError(f"the box compares nothing by '{sign}'")
    rule, right = _SIGNS[sign], reader.operand()

    def test(item: Mapping[str, Attribute], names: Names, values: Values) -> bool:
        one, two = left(item, names, values), right(item, names, values)
        return one is not None and two is not None and rule(one, two)

    return test


def _function(called: str, reader: Reader) -> Test:
    reader.take("(")
    name = reader.name()
    if called != "begins_with":
        reader.take(")")
        there = called == "attribute_exists"
        return lambda item, names, values: (resolved(name, names) in item) is there
    reader.take(",")
    mark = reader.mark()
    reader.take(")")

    def begins(item: Mapping[str, Attribute], names: Names, values: Values) -> bool:
        found = item.get(resolved(name, names), {}).get("S")
        return found is not None and bool(found.startswith(values[mark]["S"]))

    return begins


_SIGNS: dict[str, Callable[[Attribute, Attribute], bool]] = {
    "=": equal,
    "<": lambda one, two: bool(precedes(one, two)),
    ">": lambda one, two: bool(precedes(two, one)),
    ">=": lambda one, two: precedes(one, two) is False,
}
