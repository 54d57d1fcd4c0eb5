"""The comparisons of the rocketmq dialect, with RocketMQ's quirks."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tagcast.filters.sql92.java import JavaValue, equal, order
from tagcast.filters.sql92.tree import Node

Truth = bool | None
Values = list[Truth]
Evaluation = Callable[[Mapping[str, str], Values], Truth]
_Getter = Callable[[Mapping[str, str], Values], JavaValue | None]
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "equal": operator.eq,
    "unequal": operator.ne,
    "less": operator.lt,
    "at_most": operator.le,
    "greater": operator.gt,
    "at_least": operator.ge,
}


def rocketmq_leaf(nodes: Sequence[Node], place: int) -> Evaluation:
    """Return the function that evaluates the comparison or test at *place* in *nodes*.

    Its arguments are a message's properties, and the values of the nodes that are already evaluated.
    """
    node = nodes[place]
    getters = [_getter(nodes, child) for child in node.children]
    first = getters[0]
    match node.operator:
        case "equal":
            return lambda p, v: equal(first(p, v), getters[1](p, v))
        case "unequal":
            return lambda p, v: _negate(equal(first(p, v), getters[1](p, v)))
        case "less" | "at_most" | "greater" | "at_least":
            return _ordering(COMPARISONS[node.operator], first, getters[1])
        case "between":
            low = _ordering(operator.ge, first, getters[1])
            high = _ordering(operator.le, first, getters[2])
            return lambda p, v: _both(low, high, False, p, v)
        case "not_between":
            below = _ordering(operator.lt, first, getters[1])
            above = _ordering(operator.gt, first, getters[2])
            return lambda p, v: _both(below, above, True, p, v)
        case "is_null":
            return lambda p, v: first(p, v) is None
        case "is_not_null":
            return lambda p, v: first(p, v) is not None
        case "is_true":
            # A property is a text, never a boolean. As a condition it is never true.
            return lambda p, v: None if first(p, v) is None else False
        case "in" | "not_in":
            return _membership(node, first)
        case _:
            return _search(node, first)


def _getter(nodes: Sequence[Node], place: int) -> _Getter:
    node = nodes[place]
    value = node.value
    constant: JavaValue | None = None
    match node.operator:
        case "property":
            name = str(value)
            return lambda p, _: p.get(name)
        case "text":
            constant = str(value)
        case "integer":
            constant = int(str(value))
        case "float":
            constant = float(str(value))
        case "signed":
            base = nodes[node.children[0]]
            if base.operator in ("integer", "float"):
                number = int(str(base.value)) if base.operator == "integer" else float(str(base.value))
                constant = -number if value == -1 else number
        case _:
            return lambda _, v: v[place]
    return lambda _, __: constant


def _ordering(test: Callable[[int, int], bool], left: _Getter, right: _Getter) -> Evaluation:
    def ordering(p: Mapping[str, str], v: Values) -> Truth:
        result = order(left(p, v), right(p, v))
        return None if result is None else test(result, 0)

    return ordering


def _both(first: Evaluation, second: Evaluation, decisive: bool, p: Mapping[str, str], v: Values) -> Truth:
    """Combine two evaluations by AND (*decisive* is False) or OR (True). The second is skipped if the first decides."""
    left = first(p, v)
    if left is decisive:
        return decisive
    right = second(p, v)
    if right is decisive:
        return decisive
    return None if left is None or right is None else not decisive


def _membership(node: Node, subject: _Getter) -> Evaluation:
    assert isinstance(node.value, (tuple, list))
    texts = frozenset(node.value)
    wanted = node.operator == "in"

    def membership(p: Mapping[str, str], v: Values) -> Truth:
        text = subject(p, v)
        return None if text is None else (text in texts) is wanted

    return membership


def _search(node: Node, subject: _Getter) -> Evaluation:
    """Return the function that evaluates a search.

    A search, negated or not, is FALSE if the subject is not a text or the searched text is empty.
    """
    search = str(node.value)
    wanted = not node.operator.startswith("not_")
    find = SEARCHES[node.operator.removeprefix("not_")]

    def contains(p: Mapping[str, str], v: Values) -> Truth:
        text = subject(p, v)
        return isinstance(text, str) and search != "" and find(text, search) is wanted

    return contains


def _negate(value: Truth) -> Truth:
    return None if value is None else not value


SEARCHES: Mapping[str, Callable[[str, str], bool]] = {
    "contains": lambda text, search: search in text,
    "startswith": str.startswith,
    "endswith": str.endswith,
}
