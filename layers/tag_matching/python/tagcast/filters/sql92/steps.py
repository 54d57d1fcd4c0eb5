"""Evaluates an expression: one step for each condition, children first, with jumps instead of recursion."""

from collections.abc import Mapping, Sequence
from typing import Final

from tagcast.filters.sql92.dialect import Dialect
from tagcast.filters.sql92.rocketmq import Evaluation, Truth, Values, rocketmq_leaf
from tagcast.filters.sql92.strict import strict_leaf
from tagcast.filters.sql92.tree import OPERANDS, Node

Step = tuple[Evaluation, int, object, int]
"""The evaluation of a node, the node's place, the value that decides the parent, and the parent's step."""

_NEVER: Final = object()


def build_steps(nodes: Sequence[Node], dialect: Dialect) -> list[Step]:
    """Return the steps that evaluate the expression of *nodes*, in order. They can be used for many messages."""
    leaf = strict_leaf if dialect is Dialect.STRICT else rocketmq_leaf
    conditions = [place for place, node in enumerate(nodes) if node.operator not in OPERANDS]
    step_of = {place: step for step, place in enumerate(conditions)}
    decided: dict[int, tuple[bool, int]] = {}
    for place in conditions:
        if nodes[place].operator in ("and", "or"):
            decisive = nodes[place].operator == "or"
            decided.update((child, (decisive, step_of[place])) for child in nodes[place].children)
    return [
        (_evaluation(nodes, place) or leaf(nodes, place), place, *decided.get(place, (_NEVER, 0)))
        for place in conditions
    ]


def run_steps(steps: Sequence[Step], properties: Mapping[str, str], values: Values) -> Truth:
    """Return the value of the expression for *properties*.

    *values* has an item for each node. The value of every condition that is evaluated is written into its item.
    """
    at, count = 0, len(steps)
    while True:  # It ends: each step comes after the one before.
        evaluation, place, decisive, parent = steps[at]
        value = values[place] = evaluation(properties, values)
        while value is decisive:
            at = parent
            _, place, decisive, parent = steps[at]
            values[place] = value
        at += 1
        if at == count:
            return value


def _evaluation(nodes: Sequence[Node], place: int) -> Evaluation | None:
    """Return the function that evaluates a condition, if it means the same in both dialects; otherwise None."""
    node = nodes[place]
    match node.operator:
        case "and":
            return _none_or(True, node.children)
        case "or":
            return _none_or(False, node.children)
        case "not":
            child = node.children[0]
            return lambda _, values: None if values[child] is None else not values[child]
        case "true" | "false":
            constant = node.operator == "true"
            return lambda _, __: constant
        case "null":
            return lambda _, __: None
        case _:
            return None


def _none_or(otherwise: bool, children: tuple[int, ...]) -> Evaluation:
    """Return the function for an AND or OR that no child decided: unknown if a child is unknown, else *otherwise*."""

    def junction(_: Mapping[str, str], values: Values) -> Truth:
        for child in children:
            if values[child] is None:
                return None
        return otherwise

    return junction
