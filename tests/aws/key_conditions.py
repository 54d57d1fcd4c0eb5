"""Key conditions of queries: one hash value, and perhaps a range."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tests.aws.attributes import checked, invalid
from tests.aws.expressions import Reader
from tests.aws.tables import Schema


@dataclass(frozen=True)
class Clause:
    """One part of a key condition: `name sign values`."""

    name: str
    sign: str
    marks: tuple[str, ...]


@lru_cache(1024)
def parsed(text: str) -> tuple[Clause, ...]:
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


@dataclass(frozen=True)
class Bounds:
    """The range of a key condition."""

    low: Any = None
    high: Any = None
    open_low: bool = False
    open_high: bool = False
    prefix: Any = None

    def cut(self, places: Sequence[Any], key: Callable[[Any], Any] | None) -> tuple[int, int]:
        """First and last + 1 of the places within the bounds; *key* gives the range value of a place."""
        start, end = 0, len(places)
        if self.low is not None:
            start = (bisect_right if self.open_low else bisect_left)(places, self.low, key=key)
        if self.high is not None:
            end = (bisect_left if self.open_high else bisect_right)(places, self.high, key=key)
        if self.prefix is not None:
            end = start
            while end < len(places) and (key(places[end]) if key else places[end]).startswith(self.prefix):
                end += 1
        return start, max(start, end)


def asked(schema: Schema, parameters: Mapping[str, Any]) -> tuple[Any, Bounds]:
    """The hash value and the range that a query asks for, or DynamoDB's refusal."""
    if "KeyConditionExpression" not in parameters:
        raise invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
    names = parameters.get("ExpressionAttributeNames", {})
    values = parameters.get("ExpressionAttributeValues", {})
    line, bounds = None, Bounds()
    for clause in parsed(parameters["KeyConditionExpression"]):
        name = names[clause.name] if clause.name[0] == "#" else clause.name
        if name not in schema.names:
            raise invalid(f"Query condition missed key schema element: {schema.hash}")
        parts = [schema.part(name, checked(values[mark])) for mark in clause.marks]
        if name == schema.hash:
            if clause.sign != "=":
                raise invalid("Query key condition not supported")
            line = parts[0]
        else:
            bounds = _bounds(clause.sign, parts)
    if line is None:
        raise invalid(f"Query condition missed key schema element: {schema.hash}")
    return line, bounds


def _bounds(sign: str, parts: Sequence[Any]) -> Bounds:
    first = parts[0]
    match sign:
        case "=":
            return Bounds(first, first)
        case "BETWEEN":
            if parts[1] < first:
                raise invalid(
                    "Invalid KeyConditionExpression: The BETWEEN operator requires upper bound to be greater than or "
                    "equal to lower bound"
                )
            return Bounds(first, parts[1])
        case "begins_with":
            return Bounds(first, prefix=first)
        case "<":
            return Bounds(high=first, open_high=True)
        case "<=":
            return Bounds(high=first)
        case ">":
            return Bounds(low=first, open_low=True)
    return Bounds(low=first)
