"""Expresses conditions as terms, where that is possible. Each term is a test of one property.

All terms of a condition hold exactly when the condition has its wanted value, TRUE or FALSE, in both dialects. An error
is neither TRUE nor FALSE. :mod:`tagcast.filters.sql92.alternatives` splits AND, OR and NOT.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tagcast.filters.sql92.dialect import Dialect
from tagcast.filters.sql92.java import is_int
from tagcast.filters.sql92.like import parse_like
from tagcast.filters.sql92.numbers import Number
from tagcast.filters.sql92.readings import (
    JAVA_DOUBLE,
    JAVA_INT,
    JAVA_LONG,
    JAVA_TRUTH,
    NUMBER,
    TEXT,
    TRUTH,
    UNREADABLE,
    Dimension,
    Reading,
)
from tagcast.filters.sql92.strict import constant_number
from tagcast.filters.sql92.tree import COMPARISONS, EQUALITIES, NUMBER_LITERALS, Node

ANY, NONE, MISSING, PRESENT = "any", "none", "missing", "present"
ABOVE, AT_LEAST, BELOW, AT_MOST = "above", "at_least", "below", "at_most"
STARTS, ENDS, CONTAINS, LIKE = "startswith", "endswith", "contains", "like"
NOT = "not_"
"""The prefix of a negated search: the property is present and the search finds nothing."""
_BESIDE: Mapping[str, Callable[[Any, Any], bool]] = {
    ABOVE: operator.gt,
    AT_LEAST: operator.ge,
    BELOW: operator.lt,
    AT_MOST: operator.le,
}
BOUNDS = frozenset(_BESIDE)
_SEARCHES = frozenset({STARTS, ENDS, CONTAINS, LIKE})
_ORDERINGS = {"less": BELOW, "at_most": AT_MOST, "greater": ABOVE, "at_least": AT_LEAST}
_MIRRORED = {BELOW: ABOVE, ABOVE: BELOW, AT_MOST: AT_LEAST, AT_LEAST: AT_MOST}
_NEGATED = {BELOW: AT_LEAST, AT_LEAST: BELOW, ABOVE: AT_MOST, AT_MOST: ABOVE}


class Term(NamedTuple):
    """A test of one property. *test* says how the property's value is compared with *values*.

    Depending on *test*, the value must be among *values*, not be among them, lie beyond a bound, match a search, or
    only be present. A missing or unreadable property meets only the test ``missing``.
    """

    dimension: Dimension
    test: str
    values: tuple[Reading, ...] = ()

    def holds(self, value: Reading | None) -> bool:
        """Return whether the term holds for *value*, which is None if the property is missing or unreadable.

        >>> Term(Dimension("number", "a"), "above", (5,)).holds(6), Term(Dimension("text", "a"), "missing").holds(None)
        (True, True)
        """
        if value is None:
            return self.test == MISSING
        match self.test:
            case "any":
                return value in self.values
            case "none":
                return value not in self.values
            case "missing":
                return False
            case "present":
                return True
            case test if test in BOUNDS:
                return _BESIDE[test](value, self.values[0])
            case test:
                return search_of(test.removeprefix(NOT), self.values)(str(value)) is not test.startswith(NOT)


def terms_of(nodes: Sequence[Node], place: int, wanted: bool, dialect: Dialect) -> tuple[Term, ...] | None:
    """Return terms that all hold exactly when the node at *place* has the value *wanted*.

    Return None if there are no such terms. An empty tuple means that the node always has this value.
    """
    node = nodes[place]
    strict = dialect == Dialect.STRICT
    match node.operator:
        case "true" | "false":
            return () if (node.operator == "true") is wanted else None
        case "equal" | "unequal":
            return _equality(nodes, node, (node.operator == "equal") is wanted, strict)
        case "less" | "at_most" | "greater" | "at_least":
            return _ordering(nodes, node, wanted, strict)
        case "between" | "not_between" if (node.operator == "between") is wanted:
            return _between(nodes, node, strict)
        case "is_null" | "is_not_null" | "in" | "not_in" | "is_true":
            return _test(nodes, node, wanted, strict)
        case operator if is_search(operator):
            return _search(nodes, node, wanted, strict)
        case _:
            return None


def is_search(test: str) -> bool:
    """Return whether a test is a search in a text.

    >>> is_search("not_contains"), is_search("any")
    (True, False)
    """
    return test.removeprefix(NOT) in _SEARCHES


def search_of(test: str, values: Sequence[Reading]) -> Callable[[str], bool]:
    """Return a function that says whether a text meets *test*: ``startswith``, ``endswith``, ``contains`` or ``like``.

    *values* has the searched text. For ``like``, *values* has the pattern and the escape character, which may be empty.

    >>> search_of(STARTS, ("a",))("abc"), search_of(LIKE, ("a%c", ""))("abc")
    (True, True)
    """
    searched = str(values[0])
    match test:
        case "startswith":
            return lambda text: text.startswith(searched)
        case "endswith":
            return lambda text: text.endswith(searched)
        case "contains":
            return lambda text: searched in text
        case _:
            return parse_like(searched, str(values[1])).matches


def typed_constant(nodes: Sequence[Node], place: int, strict: bool) -> tuple[str, Reading] | None:
    """Return the type and the signed value of the number literal at *place*, or None for any other operand.

    A property on the other side of the comparison is read as this type. *strict* is False for the rocketmq dialect.
    """
    node = nodes[place]
    if strict:
        number: Number | None = constant_number(nodes, place)
        return None if number is None else (NUMBER, number)
    negative = node.operator == "signed" and node.value == -1
    base = nodes[node.children[0]] if node.operator == "signed" else node
    if base.operator not in NUMBER_LITERALS:
        return None
    text = f"-{base.value}" if negative else str(base.value)
    if base.operator == "float":
        return JAVA_DOUBLE, float(text)
    whole = int(text)
    return (JAVA_INT if is_int(whole) else JAVA_LONG), whole


def _equality(nodes: Sequence[Node], node: Node, same: bool, strict: bool) -> tuple[Term, ...] | None:
    left, right = node.children
    swapped = nodes[left].operator != "property"
    if swapped:
        left, right = right, left
    if nodes[left].operator != "property":
        return None
    if swapped and not strict:
        # In rocketmq a missing right side is FALSE, not unknown, and a boolean on the left side fails.
        return None
    name, other = str(nodes[left].value), nodes[right]
    test = ANY if same else NONE
    if other.operator == "text":
        return (Term(Dimension(TEXT, name), test, (str(other.value),)),)
    if other.operator in ("true", "false"):
        truth = (other.operator == "true") is same
        return (Term(Dimension(TRUTH if strict else JAVA_TRUTH, name), ANY, (truth,)),)
    constant = typed_constant(nodes, right, strict)
    return None if constant is None else (Term(Dimension(constant[0], name), test, (constant[1],)),)


def _ordering(nodes: Sequence[Node], node: Node, wanted: bool, strict: bool) -> tuple[Term, ...] | None:
    left, right = node.children
    test = _ORDERINGS[node.operator]
    if nodes[left].operator != "property":
        left, right, test = right, left, _MIRRORED[test]
    constant = typed_constant(nodes, right, strict) if nodes[left].operator == "property" else None
    if constant is None:
        return None
    name = str(nodes[left].value)
    return (Term(Dimension(constant[0], name), test if wanted else _NEGATED[test], (constant[1],)),)


def _between(nodes: Sequence[Node], node: Node, strict: bool) -> tuple[Term, ...] | None:
    subject, low, high = node.children
    if nodes[subject].operator != "property":
        return None
    lower, upper = typed_constant(nodes, low, strict), typed_constant(nodes, high, strict)
    if lower is None or upper is None:
        return None
    name = str(nodes[subject].value)
    return (
        Term(Dimension(lower[0], name), AT_LEAST, (lower[1],)),
        Term(Dimension(upper[0], name), AT_MOST, (upper[1],)),
    )


def _test(nodes: Sequence[Node], node: Node, wanted: bool, strict: bool) -> tuple[Term, ...] | None:
    subject = nodes[node.children[0]]
    if subject.operator != "property":
        return None
    text = Dimension(TEXT, str(subject.value))
    match node.operator:
        case "is_null" | "is_not_null":
            return (Term(text, MISSING if (node.operator == "is_null") is wanted else PRESENT),)
        case "is_true" if strict:
            return (Term(Dimension(TRUTH, text.name), ANY, (wanted,)),)
        case "is_true":
            # Never TRUE, and FALSE for every text.
            return None if wanted else (Term(Dimension(JAVA_TRUTH, text.name), ANY, (True, False)),)
        case _:
            assert isinstance(node.value, (tuple, list))
            values = tuple(dict.fromkeys(node.value))
            return (Term(text, ANY if (node.operator == "in") is wanted else NONE, values),)


def _search(nodes: Sequence[Node], node: Node, wanted: bool, strict: bool) -> tuple[Term, ...] | None:
    subject = nodes[node.children[0]]
    if subject.operator != "property" or (not strict and not (wanted and node.value)):
        # In rocketmq a search without a text or for an empty text is FALSE, even when negated.
        return None
    text = Dimension(TEXT, str(subject.value))
    found = node.operator.startswith(NOT) is not wanted
    name = node.operator.removeprefix(NOT)
    if name == LIKE:
        assert isinstance(node.value, (tuple, list))
        name, values = _simplest(str(node.value[0]), str(node.value[1]))
    else:
        values = (str(node.value),)
    if name in (ANY, PRESENT):
        return (Term(text, name if found else NONE, values),) if found or values else None
    return (Term(text, name if found else NOT + name, values),)


def _simplest(pattern: str, escape: str) -> tuple[str, tuple[str, ...]]:
    """Return the simplest test that is equivalent to a LIKE pattern, and the values of this test."""
    match parse_like(pattern, escape).parts:
        case (str(text),):
            return ANY, (text,)
        case ("", ""):
            return PRESENT, ()
        case (str(text), ""):
            return STARTS, (text,)
        case ("", str(text)):
            return ENDS, (text,)
        case ("", str(text), ""):
            return CONTAINS, (text,)
        case _:
            return LIKE, (pattern, escape)


def failing_dimensions(nodes: Sequence[Node]) -> frozenset[Dimension] | None:
    """Return the dimensions that may make a rocketmq expression fail if the property's text is unreadable.

    Return None if the expression may also fail for another reason. Return an empty set if it cannot fail.

    >>> from tagcast.filters.sql92 import compile_sql92
    >>> sorted(failing_dimensions(compile_sql92("a > 5 AND b = 'x' AND c < 1.5", "rocketmq").nodes))
    [Dimension(kind='double', name='c'), Dimension(kind='int', name='a')]
    """
    found: set[Dimension] = set()
    for node in nodes:
        for other in node.children[1:] if node.operator in COMPARISONS else ():
            dimensions = _failing_pair(nodes, node.children[0], other, node.operator in EQUALITIES.values())
            if dimensions is None:
                return None
            found.update(dimensions)
    return frozenset(found)


def _failing_pair(nodes: Sequence[Node], left: int, right: int, equality: bool) -> list[Dimension] | None:
    operators = nodes[left].operator, nodes[right].operator
    names = [str(nodes[place].value) for place in (left, right) if nodes[place].operator == "property"]
    constants = [constant for place in (left, right) if (constant := typed_constant(nodes, place, False)) is not None]
    if len(names) == 2:
        return [] if equality else [Dimension(JAVA_DOUBLE, name) for name in names]
    if names and constants:
        return [Dimension(constants[0][0], names[0])]
    if len(constants) == 2 or (names and operators[1] in ("true", "false", "text", "signed")):
        return []
    if names and operators[0] in ("text", "signed"):
        return []
    if names and operators[0] in ("true", "false"):
        return [Dimension(UNREADABLE, names[0])]
    return None
