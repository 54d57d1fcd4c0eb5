"""What all expressions of DynamoDB are made of: tokens, paths, operands and placeholders.

A parsed part is a function of the item and of the names and values that came with the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from local.rules import limits
from tests.aws.attributes import Attribute, invalid, text_bytes

Names = Mapping[str, str]
Values = Mapping[str, Attribute]
Steps = tuple[str | int, ...]
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
