"""Update expressions of DynamoDB in the forms that the shipped code asks for: SET, REMOVE and ADD of attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tests.aws.attributes import EXACT, Attribute, Item, invalid, number, plain_number
from tests.aws.expressions import Names, Reader, Values, resolved

SECTIONS = ("SET", "REMOVE", "ADD")


@dataclass(frozen=True)
class Update:
    """A parsed update: of each action its section, the name of an attribute, and the mark of a value."""

    actions: tuple[tuple[str, str, str], ...]
    names: frozenset[str]
    marks: frozenset[str]

    def attributes(self, names: Names) -> list[str]:
        """The attributes that it changes, one for each action."""
        return [resolved(name, names) for _, name, _ in self.actions]

    def applied(self, item: Item, attributes: Sequence[str], values: Values) -> Item:
        """The item as the update leaves it, *attributes* being its own."""
        changed = dict(item)
        for (section, _, mark), name in zip(self.actions, attributes, strict=True):
            match section:
                case "SET":
                    changed[name] = values[mark]
                case "REMOVE":
                    changed.pop(name, None)
                case _:
                    changed[name] = _sum(item.get(name), values[mark])
        return changed


NOTHING = Update((), frozenset(), frozenset())


@lru_cache(4096)
def update(text: str) -> Update:
    """Parse an update expression."""
    reader = Reader(text, "UpdateExpression")
    actions: list[tuple[str, str, str]] = []
    sections: list[str] = []
    while reader.peek():
        section = reader.take().upper()
        if section not in SECTIONS:
            raise reader.wrong(section)
        if section in sections:
            raise invalid(
                f'Invalid UpdateExpression: The "{section}" section can only be used once in an update expression;'
            )
        sections.append(section)
        actions.append(_action(reader, section))
        while reader.ask(","):
            actions.append(_action(reader, section))
    return Update(tuple(actions), frozenset(reader.names), frozenset(reader.marks))


def _action(reader: Reader, section: str) -> tuple[str, str, str]:
    name = reader.name()
    if section == "SET":
        reader.take("=")
    return section, name, "" if section == "REMOVE" else reader.mark()


def _sum(found: Attribute | None, added: Attribute) -> Attribute:
    if "N" not in added:
        raise invalid("Incorrect operand type for operator or function; operator: ADD")
    if found is None:
        return added
    if "N" not in found:
        raise invalid("An operand in the update expression has an incorrect data type")
    return {"N": plain_number(EXACT.add(number(found["N"]), number(added["N"])))}


def check(attributes: Sequence[str], keys: Mapping[str, Any]) -> None:
    """Refuse an update of a key, or of one attribute twice."""
    for name in attributes:
        if name in keys:
            raise invalid(
                f"One or more parameter values were invalid: Cannot update attribute {name}. "
                "This attribute is part of the key"
            )
    if len(set(attributes)) != len(attributes):
        raise invalid(
            "Invalid UpdateExpression: Two document paths overlap with each other; "
            "must remove or rewrite one of these paths"
        )
