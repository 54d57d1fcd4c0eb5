"""The strict dialect: numbers compare by value, equality is symmetric, an unreadable text is unknown and no error."""

import operator
from collections.abc import Callable, Mapping, Sequence

from tagcast.filters.sql92.like import parse_like
from tagcast.filters.sql92.numbers import Number, negate, number_of, truth_of
from tagcast.filters.sql92.rocketmq import COMPARISONS, SEARCHES, Evaluation, Truth, Values
from tagcast.filters.sql92.tree import NUMBER_LITERALS, Node

_Texts = Callable[[Mapping[str, str], Values], str | None]
_Numbers = Callable[[Mapping[str, str], Values], Number | None]


def strict_leaf(nodes: Sequence[Node], place: int) -> Evaluation:
    """Return the function that evaluates the comparison or test at *place* in *nodes*.

    Its arguments are a message's properties, and the values of the nodes that are already evaluated.
    """
    node = nodes[place]
    children = node.children
    match node.operator:
        case "equal" | "unequal":
            return _equality(nodes, node.operator == "equal", *children)
        case "less" | "at_most" | "greater" | "at_least":
            return _number_test(nodes, COMPARISONS[node.operator], *children)
        case "between" | "not_between":
            return _between(nodes, node.operator == "between", *children)
        case "is_null":
            presence = _presence(nodes, children[0])
            return lambda p, v: not presence(p, v)
        case "is_not_null":
            return _presence(nodes, children[0])
        case "is_true":
            return _truths(nodes, children[0])
        case _:
            return _text_test(nodes, node)


def sort_of(nodes: Sequence[Node], place: int) -> str:
    """Return the type of the operand at *place*: ``property``, ``text``, ``number`` or ``truth`` (a boolean).

    >>> sort_of((Node("integer", "1", (), 0, 1),), 0)
    'number'
    """
    kind = nodes[place].operator
    if kind in ("property", "text"):
        return kind
    return "number" if kind == "signed" or kind in NUMBER_LITERALS else "truth"


def constant_number(nodes: Sequence[Node], place: int) -> Number | None:
    """Return the value of the number literal at *place*, with its sign, or ``None`` for any other operand."""
    node = nodes[place]
    if node.operator == "signed":
        base = constant_number(nodes, node.children[0])
        return negate(base) if base is not None and node.value == -1 else base
    return number_of(str(node.value)) if node.operator in NUMBER_LITERALS else None


def _equality(nodes: Sequence[Node], wanted: bool, left: int, right: int) -> Evaluation:
    sorts = {sort_of(nodes, left), sort_of(nodes, right)}
    if "truth" in sorts and "number" not in sorts:
        first, second = _truths(nodes, left), _truths(nodes, right)
        return lambda p, v: _same(first(p, v), second(p, v), wanted)
    if sorts <= {"property", "text"}:
        one, other = _texts(nodes, left), _texts(nodes, right)
        return lambda p, v: _same(one(p, v), other(p, v), wanted)
    if sorts <= {"property", "number"}:
        return _number_test(nodes, COMPARISONS["equal" if wanted else "unequal"], left, right)
    # Values of different types, such as a text and a number, are never equal.
    present, there = _presence(nodes, left), _presence(nodes, right)
    return lambda p, v: not wanted if present(p, v) and there(p, v) else None


def _same(left: str | bool | None, right: str | bool | None, wanted: bool) -> Truth:
    return None if left is None or right is None else (left == right) is wanted


def _number_test(nodes: Sequence[Node], test: Callable[[Number, Number], bool], left: int, right: int) -> Evaluation:
    constant = constant_number(nodes, right)
    if nodes[left].operator == "property" and constant is not None:
        return _property_test(str(nodes[left].value), test, constant)
    one, other = _numbers(nodes, left), _numbers(nodes, right)

    def compare(p: Mapping[str, str], v: Values) -> Truth:
        number, second = one(p, v), other(p, v)
        return None if number is None or second is None else test(number, second)

    return compare


def _property_test(name: str, test: Callable[[Number, Number], bool], constant: Number) -> Evaluation:
    def compare(p: Mapping[str, str], _: Values) -> Truth:
        text = p.get(name)
        number = None if text is None else number_of(text)
        return None if number is None else test(number, constant)

    return compare


def _between(nodes: Sequence[Node], wanted: bool, subject: int, low: int, high: int) -> Evaluation:
    above = _number_test(nodes, operator.ge, subject, low)
    below = _number_test(nodes, operator.le, subject, high)

    def between(p: Mapping[str, str], v: Values) -> Truth:
        first, second = above(p, v), below(p, v)
        if first is False or second is False:
            return not wanted
        return None if first is None or second is None else wanted

    return between


def _text_test(nodes: Sequence[Node], node: Node) -> Evaluation:
    """Return the function that evaluates IN, LIKE or a search. Numbers and booleans meet only the negated form."""
    subject = node.children[0]
    wanted = not node.operator.startswith("not_")
    if sort_of(nodes, subject) in ("number", "truth"):
        presence = _presence(nodes, subject)
        return lambda p, v: not wanted if presence(p, v) else None
    text_of, holds = _texts(nodes, subject), text_predicate(node)

    def test(p: Mapping[str, str], v: Values) -> Truth:
        text = text_of(p, v)
        return None if text is None else holds(text) is wanted

    return test


def text_predicate(node: Node) -> Callable[[str], bool]:
    """Return a function that tests a text as *node* does. *node* must be an ``IN``, ``LIKE`` or search.

    The function ignores a ``NOT`` before the operator, so the caller must negate the result.
    """
    name, value = node.operator.removeprefix("not_"), node.value
    if name == "in":
        assert isinstance(value, (tuple, list))
        return frozenset(value).__contains__
    if name == "like":
        assert isinstance(value, (tuple, list))
        return parse_like(*value).matches
    search, find = str(value), SEARCHES[name]
    return lambda text: find(text, search)


def _texts(nodes: Sequence[Node], place: int) -> _Texts:
    value = str(nodes[place].value)
    if nodes[place].operator == "property":
        return lambda p, _: p.get(value)
    return lambda _, __: value


def _numbers(nodes: Sequence[Node], place: int) -> _Numbers:
    constant = constant_number(nodes, place)
    if constant is not None:
        return lambda _, __: constant
    signed = nodes[place].operator == "signed"
    minus = signed and nodes[place].value == -1
    name = str(nodes[nodes[place].children[0] if signed else place].value)

    def number(p: Mapping[str, str], _: Values) -> Number | None:
        text = p.get(name)
        value = None if text is None else number_of(text)
        return negate(value) if minus and value is not None else value

    return number


def _truths(nodes: Sequence[Node], place: int) -> Evaluation:
    if sort_of(nodes, place) == "truth":
        return lambda _, v: v[place]
    text_of = _texts(nodes, place)

    def truth(p: Mapping[str, str], v: Values) -> Truth:
        text = text_of(p, v)
        return None if text is None else truth_of(text)

    return truth


def _presence(nodes: Sequence[Node], place: int) -> Callable[[Mapping[str, str], Values], bool]:
    match sort_of(nodes, place):
        case "truth":
            return lambda _, v: v[place] is not None
        case "number":
            number = _numbers(nodes, place)
            return lambda p, v: number(p, v) is not None
        case _:
            text_of = _texts(nodes, place)
            return lambda p, v: text_of(p, v) is not None
