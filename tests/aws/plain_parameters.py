"""A short way of validation: which parameters are plainly right, said by predicates that are made of the shapes once.

Whatever is not plainly right takes botocore's own way, so that every complaint is botocore's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape
from botocore.utils import is_json_value_header

Predicate = Callable[[Any], bool]
SCALARS = {"boolean": bool, "blob": bytes}
"""Types of which botocore checks nothing else."""


class PlainParameters:
    """Predicates of the shapes of one service; a shape that contains itself is known by its name."""

    def __init__(self) -> None:
        self._known: dict[str, Predicate] = {}

    def of(self, shape: Shape) -> Predicate:
        """Return the predicate of *shape*: what it says yes to, botocore takes."""
        if is_json_value_header(shape) or shape.serialization.get("hostLabel"):
            return _never
        if shape.name not in self._known:
            self._known[shape.name] = lambda value: self._known[shape.name](value)
            self._known[shape.name] = self._made(shape)
        return self._known[shape.name]

    def _made(self, shape: Shape) -> Predicate:
        least = shape.metadata.get("min", float("-inf"))
        match shape:
            case StructureShape():
                return self._structure(shape)
            case MapShape():
                key, value = self.of(shape.key), self.of(shape.value)
                return lambda given: type(given) is dict and all(map(key, given)) and all(map(value, given.values()))
            case ListShape():
                member = self.of(shape.member)
                return lambda given: type(given) is list and len(given) >= least and all(map(member, given))
            case _:
                return _scalar(shape.type_name, least)

    def _structure(self, shape: StructureShape) -> Predicate:
        if shape.is_document_type:
            return _never
        required = frozenset(shape.metadata.get("required", ()))
        members = {name: self.of(member) for name, member in shape.members.items()}
        is_union = shape.is_tagged_union

        def plain(given: Any) -> bool:
            if type(given) is not dict or not required <= given.keys() or (is_union and len(given) != 1):
                return False
            for name, value in given.items():
                member = members.get(name)
                if member is None or not member(value):
                    return False
            return True

        return plain


def _scalar(kind: str, least: float) -> Predicate:
    if kind == "string":
        return lambda given: type(given) is str and len(given) >= least
    if kind in ("integer", "long"):
        return lambda given: type(given) is int and given >= least
    if kind in SCALARS:
        return lambda given: type(given) is SCALARS[kind]
    return _never


def _never(given: Any) -> bool:
    return False
