"""What expressions of DynamoDB are made of, in the forms that the shipped code asks for: names, marks, projections.

Documents, functions of values and arithmetic are not played: a request with one is an UnplayedError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.aws import limits
from tests.aws.attributes import Attribute, invalid, text_bytes
from tests.aws.faults import UnplayedError

Names = Mapping[str, str]
Values = Mapping[str, Attribute]
Operand = Callable[[Mapping[str, Attribute], Names, Values], "Attribute | None"]
_TOKEN = re.compile(r"\s*(?:([#:][\w-]+|[A-Za-z_][\w]*|\d+)|(<>|<=|>=|[=<>(),.\[\]+-]))")


@cache
def reserved_words() -> frozenset[str]:
    """DynamoDB's reserved words (ReservedWords.html), from moto's copy of the page."""
    found = find_spec("moto")
    assert found is not None
    assert found.submodule_search_locations
    listed = Path(found.submodule_search_locations[0]) / "dynamodb/parsing/reserved_keywords.txt"
    return frozenset(listed.read_text().upper().split())


def resolved(name: str, names: Names) -> str:
    """The attribute that a name or its placeholder stands for."""
    return names[name] if name[0] == "#" else name


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

    def peek(self) -> str:
        """The next token, or "" at the end."""
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

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
        """The name of an attribute, or its placeholder."""
        token = self.take()
        if self.peek() in ("(", ".", "[", "+", "-"):
            raise UnplayedError(f"the box plays no '{token}{self.peek()}' of an expression")
        if token[0] == "#":
            self.names.add(token)
        elif not (token[0].isalpha() or token[0] == "_"):
            raise self.wrong(token)
        elif token.upper() in reserved_words():
            raise invalid(f"Invalid {self.kind}: Attribute name is a reserved keyword; reserved keyword: {token}")
        return token

    def mark(self) -> str:
        """A placeholder of a value."""
        token = self.take()
        if token.isidentifier():
            raise UnplayedError(f"the box takes values only, and '{token}' is none")
        if token[0] != ":":
            raise self.wrong(token)
        self.marks.add(token)
        return token

    def operand(self) -> Operand:
        """An attribute or a value."""
        if self.peek().startswith(":"):
            mark = self.mark()
            return lambda item, names, values: values[mark]
        name = self.name()
        return lambda item, names, values: item.get(resolved(name, names))


@lru_cache(1024)
def projection(text: str) -> tuple[str, ...]:
    """Parse a projection."""
    reader = Reader(text, "ProjectionExpression")
    found = [reader.name()]
    while reader.ask(","):
        found.append(reader.name())
    reader.end()
    return tuple(found)


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
