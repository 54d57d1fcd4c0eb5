"""The expression language of DynamoDB: conditions, filters, projections and key conditions, parsed once per text.

A parsed expression is a function of the item and of the names and values that came with the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.aws import limits
from tests.aws.attributes import Attribute, comparable, equal, invalid, precedes, text_bytes

Names, Values = Mapping[str, str], Mapping[str, Attribute]
Steps = tuple[str | int, ...]
Operand = Callable[[Mapping[str, Attribute], Names, Values], "Attribute | None"]
Test = Callable[[Mapping[str, Attribute], Names, Values], bool]
_TOKEN = re.compile(r"\s*(?:([#:][\w-]+|[A-Za-z_][\w]*|\d+)|(<>|<=|>=|[=<>(),.\[\]+-]))")
_FUNCTIONS = ("attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains")
_WORDS = ("AND", "OR", "NOT", "BETWEEN", "IN")


@cache
def reserved_words() -> frozenset[str]:
    """DynamoDB's reserved words (ReservedWords.html), from moto's copy of the page."""
    found = find_spec("moto")
    assert found is not None
    assert found.submodule_search_locations
    listed = Path(found.submodule_search_locations[0]) / "dynamodb/parsing/reserved_keywords.txt"
    return frozenset(listed.read_text().upper().split())


@dataclass(frozen=True)
class DocumentPath:
    """A document path; *steps* are names or placeholders of names, and indexes of lists."""

    steps: Steps

    def resolved(self, names: Names) -> Steps:
        """The path with its placeholders replaced."""
        return tuple(names[step] if isinstance(step, str) and step[0] == "#" else step for step in self.steps)

    def __call__(self, item: Mapping[str, Attribute], names: Names, values: Values) -> Attribute | None:
        first = self.steps[0]
        assert isinstance(first, str)
        found = item.get(names[first] if first[0] == "#" else first)
        return found if len(self.steps) == 1 else value_at(found, self.resolved(names)[1:])


def value_at(found: Attribute | None, steps: Steps) -> Attribute | None:
    """The value at the end of a path below *found*, or None."""
    for step in steps:
        if found is None:
            return None
        if isinstance(step, int):
            content = found.get("L", ())
            found = content[step] if step < len(content) else None
        else:
            found = found.get("M", {}).get(step)
    return found


class Reader:
    """Reads an expression from left to right; *names* and *marks* collect the placeholders that it met."""

    def __init__(self, text: str, kind: str) -> None:
        if text_bytes(text) > limits.EXPRESSION_BYTES_MAX:
            raise invalid(f"Invalid {kind}: Expression size has exceeded the maximum allowed size")
        if not text.strip():
            raise invalid(f"Invalid {kind}: The expression can not be empty;")
        self.kind = kind
        self.names: set[str] = set()
        self.marks: set[str] = set()
        self._tokens: list[str] = []
        place = 0
        while place < len(text.rstrip()):
            found = _TOKEN.match(text, place)
            if found is None:
                raise self.wrong(text[place : place + 10])
            self._tokens.append(found[1] or found[2])
            place = found.end()
        self._next = 0

    def wrong(self, token: str) -> Exception:
        return invalid(f'Invalid {self.kind}: Syntax error; token: "{token}"')

    def peek(self, ahead: int = 0) -> str:
        """The next token, or "" at the end."""
        place = self._next + ahead
        return self._tokens[place] if place < len(self._tokens) else ""

    def take(self, wanted: str | None = None) -> str:
        """The next token, which must be *wanted* if that is given (words in any case)."""
        token = self.peek()
        if not token or (wanted is not None and token.upper() != wanted):
            raise self.wrong(token or "<EOF>")
        self._next += 1
        return token

    def ask(self, wanted: str) -> bool:
        """Take the next token if it is *wanted*."""
        if self.peek().upper() != wanted:
            return False
        self._next += 1
        return True

    def end(self) -> None:
        """Refuse what is left."""
        if self.peek():
            raise self.wrong(self.peek())

    def name(self) -> str:
        """One step of a path."""
        token = self.take()
        if token[0] == "#":
            self.names.add(token)
        elif not (token[0].isalpha() or token[0] == "_"):
            raise self.wrong(token)
        elif token.upper() in reserved_words():
            raise invalid(f"Invalid {self.kind}: Attribute name is a reserved keyword; reserved keyword: {token}")
        return token

    def path(self) -> DocumentPath:
        """A document path."""
        steps: list[str | int] = [self.name()]
        while True:
            if self.ask("."):
                steps.append(self.name())
            elif self.ask("["):
                steps.append(int(self.take()))
                self.take("]")
            else:
                return DocumentPath(tuple(steps))

    def mark(self) -> str:
        """A placeholder of a value."""
        token = self.take()
        if token[0] != ":":
            raise self.wrong(token)
        self.marks.add(token)
        return token

    def operand(self) -> Operand:
        """A path, a value or the size of a path."""
        if self.peek().startswith(":"):
            mark = self.mark()
            return lambda item, names, values: values[mark]
        if self.peek() == "size" and self.peek(1) == "(":
            self.take()
            self.take("(")
            path = self.path()
            self.take(")")
            return lambda item, names, values: _length(path(item, names, values))
        return self.path()


def _length(value: Attribute | None) -> Attribute | None:
    if value is None:
        return None
    ((kind, content),) = value.items()
    if kind in ("N", "NULL", "BOOL"):
        return None
    return {"N": str(text_bytes(content) if kind == "S" else len(content))}


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


@dataclass(frozen=True)
class Clause:
    """One part of a key condition: `name sign values`."""

    name: str
    sign: str
    marks: tuple[str, ...]


@lru_cache(1024)
def key_condition(text: str) -> tuple[Clause, ...]:
    """Parse a key condition: one or two clauses."""
    reader = Reader(text, "KeyConditionExpression")
    clauses = [_clause(reader)]
    while reader.ask("AND"):
        clauses.append(_clause(reader))
    reader.end()
    if len(clauses) > 2:
        raise invalid("Conditions can be of length 1 or 2 only")
    return tuple(clauses)


def _clause(reader: Reader) -> Clause:
    if reader.ask("("):
        inner = _clause(reader)
        reader.take(")")
        return inner
    if reader.peek() == "begins_with" and reader.peek(1) == "(":
        reader.take()
        reader.take("(")
        name = reader.name()
        reader.take(",")
        mark = reader.mark()
        reader.take(")")
        return Clause(name, "begins_with", (mark,))
    name = reader.name()
    if reader.ask("BETWEEN"):
        low = reader.mark()
        reader.take("AND")
        return Clause(name, "BETWEEN", (low, reader.mark()))
    sign = reader.take()
    if sign not in ("=", "<", "<=", ">", ">="):
        raise invalid("Query key condition not supported")
    return Clause(name, sign, (reader.mark(),))


@lru_cache(1024)
def projection(text: str) -> tuple[DocumentPath, ...]:
    """Parse a projection."""
    reader = Reader(text, "ProjectionExpression")
    paths = [reader.path()]
    while reader.ask(","):
        paths.append(reader.path())
    reader.end()
    return tuple(paths)


def check_placeholders(parameters: Mapping[str, Any], names: frozenset[str], marks: frozenset[str]) -> None:
    """Refuse placeholders that no expression uses, and expressions that use undeclared ones."""
    for member, used in (("ExpressionAttributeNames", names), ("ExpressionAttributeValues", marks)):
        given = parameters.get(member, {})
        for mark in used:
            if mark not in given:
                what = "name" if mark[0] == "#" else "value"
                raise invalid(
                    f"An expression attribute {what} used in expression is not defined; attribute {what}: {mark}"
                )
        if len(given) != len(used):
            unused = ", ".join(sorted(given.keys() - used))
            raise invalid(f"Value provided in {member} unused in expressions: keys: {{{unused}}}")
