"""Key conditions of queries in the forms that the shipped code asks for: one hash value, and a range of its rows."""

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
    name = reader.name()
    if reader.ask("BETWEEN"):
        low = reader.mark()
        reader.take("AND")
        return Clause(name, "BETWEEN", (low, reader.mark()))
    sign = reader.take()
    if sign not in ("=", "<="):
        raise invalid("Query key condition not supported")
    return Clause(name, sign, (reader.mark(),))


@dataclass(frozen=True)
class Bounds:
    """The range of a key condition."""

    low: Any = None
    high: Any = None

    def cut(self, places: Sequence[Any], key: Callable[[Any], Any] | None) -> tuple[int, int]:
        """First and last + 1 of the places within the bounds; *key* gives the range value of a place."""
        start = 0 if self.low is None else bisect_left(places, self.low, key=key)
        end = len(places) if self.high is None else bisect_right(places, self.high, key=key)
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
            bounds = Bounds(None if clause.sign == "<=" else parts[0], parts[-1])
            if clause.sign == "BETWEEN" and parts[1] < parts[0]:
                raise invalid(
                    "Invalid KeyConditionExpression: The BETWEEN operator requires upper bound to be greater than or "
                    "equal to lower bound"
                )
    if line is None:
        raise invalid(f"Query condition missed key schema element: {schema.hash}")
    return line, bounds
