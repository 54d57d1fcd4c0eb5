"""Update expressions of DynamoDB: SET, REMOVE, ADD and DELETE on an item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tests.aws.attributes import EXACT, Attribute, Item, comparable, invalid, number, plain_number
from tests.aws.expressions import DocumentPath, Names, Operand, Reader, Steps, Values, value_at

SECTIONS = ("SET", "REMOVE", "ADD", "DELETE")


@dataclass(frozen=True)
class Action:
    """One action of an update: what happens at a path, and with which value (a mark or an operand)."""

    section: str
    path: DocumentPath
    value: Operand | None = None


@dataclass(frozen=True)
class Update:
    """A parsed update."""

    actions: tuple[Action, ...]
    names: frozenset[str]
    marks: frozenset[str]

    def paths(self, names: Names) -> list[Steps]:
        """The paths that it changes, one for each action."""
        return [action.path.resolved(names) for action in self.actions]

    def applied(self, item: Item, paths: Sequence[Steps], names: Names, values: Values) -> Item:
        """The item as the update leaves it, *paths* being its own; each operand is of the item as it was before."""
        changed = dict(item)
        for action, steps in zip(self.actions, paths, strict=True):
            given = None if action.value is None else action.value(item, names, values)
            match action.section:
                case "SET":
                    if given is None:
                        raise invalid("The provided expression refers to an attribute that does not exist in the item")
                    _put(changed, steps, given)
                case "REMOVE":
                    _put(changed, steps, None)
                case "ADD":
                    assert given is not None
                    _put(changed, steps, _sum(value_at({"M": item}, steps), given))
                case _:
                    assert given is not None
                    _put(changed, steps, _difference(value_at({"M": item}, steps), given))
        return changed


NOTHING = Update((), frozenset(), frozenset())


@lru_cache(4096)
def update(text: str) -> Update:
    """Parse an update expression."""
    reader = Reader(text, "UpdateExpression")
    actions: list[Action] = []
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


def _action(reader: Reader, section: str) -> Action:
    path = reader.path()
    if section == "REMOVE":
        return Action(section, path)
    if section == "SET":
        reader.take("=")
        return Action(section, path, _value(reader))
    mark = reader.mark()
    return Action(section, path, lambda item, names, values: values[mark])


def _value(reader: Reader) -> Operand:
    left = _term(reader)
    for sign, factor in (("+", 1), ("-", -1)):
        if reader.ask(sign):
            right = _term(reader)
            return lambda item, names, values, factor=factor: _arithmetic(  # type: ignore[misc]
                left(item, names, values), right(item, names, values), factor
            )
    return left


def _term(reader: Reader) -> Operand:
    if reader.peek() == "if_not_exists" and reader.peek(1) == "(":
        reader.take()
        reader.take("(")
        path = reader.path()
        reader.take(",")
        otherwise = _term(reader)
        reader.take(")")
        return lambda item, names, values: path(item, names, values) or otherwise(item, names, values)
    if reader.peek() == "list_append" and reader.peek(1) == "(":
        reader.take()
        reader.take("(")
        first = _term(reader)
        reader.take(",")
        second = _term(reader)
        reader.take(")")
        return lambda item, names, values: _appended(first(item, names, values), second(item, names, values))
    return reader.operand()


def _appended(first: Attribute | None, second: Attribute | None) -> Attribute | None:
    if first is None or second is None:
        return None
    if "L" not in first or "L" not in second:
        raise invalid("An operand in the update expression has an incorrect data type")
    return {"L": [*first["L"], *second["L"]]}


def _arithmetic(left: Attribute | None, right: Attribute | None, factor: int) -> Attribute | None:
    if left is None or right is None:
        return None
    if "N" not in left or "N" not in right:
        raise invalid("An operand in the update expression has an incorrect data type")
    return _number(EXACT.fma(Decimal(factor), number(right["N"]), number(left["N"])))


def _number(value: Decimal) -> Attribute:
    return {"N": plain_number(value)}


def _sum(found: Attribute | None, added: Attribute) -> Attribute:
    ((kind, content),) = added.items()
    if kind not in ("N", "SS", "NS", "BS"):
        raise invalid("Incorrect operand type for operator or function; operator: ADD")
    if found is None:
        return added
    if kind not in found:
        raise invalid("An operand in the update expression has an incorrect data type")
    if kind == "N":
        return _number(EXACT.add(number(found["N"]), number(content)))
    known = comparable(found)
    return {kind: [*found[kind], *(each for each in content if comparable({kind[0]: each}) not in known)]}


def _difference(found: Attribute | None, removed: Attribute) -> Attribute | None:
    ((kind, _),) = removed.items()
    if kind not in ("SS", "NS", "BS"):
        raise invalid("Incorrect operand type for operator or function; operator: DELETE")
    if found is None:
        return None
    if kind not in found:
        raise invalid("An operand in the update expression has an incorrect data type")
    gone = comparable(removed)
    left = [each for each in found[kind] if comparable({kind[0]: each}) not in gone]
    return {kind: left} if left else None


def _put(item: Item, steps: Steps, value: Attribute | None) -> None:
    """Put a value at a path of *item*, or remove what is there; the values on the way are replaced, not changed."""
    first = steps[0]
    assert isinstance(first, str)
    if len(steps) == 1:
        if value is None:
            item.pop(first, None)
        else:
            item[first] = value
        return
    if first not in item:
        raise invalid("The document path provided in the update expression is invalid for update")
    item[first] = _below(item[first], steps[1:], value)


def _below(found: Attribute, steps: Steps, value: Attribute | None) -> Attribute:
    step, rest = steps[0], steps[1:]
    content: Any
    if isinstance(step, int) and "L" in found:
        content = list(found["L"])
        there = step < len(content)
        if rest and there:
            content[step] = _below(content[step], rest, value)
        elif rest:
            raise invalid("The document path provided in the update expression is invalid for update")
        elif value is None:
            del content[step : step + 1]
        elif there:
            content[step] = value
        else:
            content.append(value)
        return {"L": content}
    if isinstance(step, str) and "M" in found and (not rest or step in found["M"]):
        content = dict(found["M"])
        if rest:
            content[step] = _below(content[step], rest, value)
        elif value is None:
            content.pop(step, None)
        else:
            content[step] = value
        return {"M": content}
    raise invalid("The document path provided in the update expression is invalid for update")


def overlapping(paths: Sequence[Steps]) -> tuple[Steps, Steps] | None:
    """Two paths of which one is the other or lies below it, if there are such."""
    if all(len(path) == 1 for path in paths) and len(set(paths)) == len(paths):
        return None
    for place, one in enumerate(paths):
        for other in paths[place + 1 :]:
            shorter = min(len(one), len(other))
            if one[:shorter] == other[:shorter]:
                return one, other
    return None


def check(paths: Sequence[Steps], keys: Mapping[str, Any]) -> None:
    """Refuse an update of a key, or of two paths that overlap."""
    for path in paths:
        if path[0] in keys:
            raise invalid(
                f"One or more parameter values were invalid: Cannot update attribute {path[0]}. "
                "This attribute is part of the key"
            )
    if overlapping(paths):
        raise invalid(
            "Invalid UpdateExpression: Two document paths overlap with each other; "
            "must remove or rewrite one of these paths"
        )
