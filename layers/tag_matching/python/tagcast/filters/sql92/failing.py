"""Finds the properties whose texts may make an expression of the rocketmq dialect fail, before there is a message."""

from collections.abc import Iterator, Sequence

from tagcast.filters.sql92.readings import JAVA_DOUBLE, UNREADABLE, Dimension
from tagcast.filters.sql92.terms import typed_constant
from tagcast.filters.sql92.tree import Node

_EQUALITIES = frozenset({"equal", "unequal"})
_ORDERINGS = frozenset({"less", "at_most", "greater", "at_least", "between", "not_between"})


def failing_dimensions(nodes: Sequence[Node]) -> frozenset[Dimension] | None:
    """Return the dimensions that may make the expression fail, because the property's text is unreadable.

    Return None if the expression may also fail for another reason.

    >>> from tagcast.filters.sql92 import compile_sql92
    >>> sorted(failing_dimensions(compile_sql92("a > 5 AND b = 'x' AND c < 1.5", "rocketmq").nodes))
    [Dimension(kind='double', name='c'), Dimension(kind='int', name='a')]
    """
    found: set[Dimension] = set()
    for node in nodes:
        for left, right in _compared(node):
            dimensions = _failing_pair(nodes, left, right, node.operator in _EQUALITIES)
            if dimensions is None:
                return None
            found.update(dimensions)
    return frozenset(found)


def _compared(node: Node) -> Iterator[tuple[int, int]]:
    if node.operator in _EQUALITIES or node.operator in _ORDERINGS:
        for other in node.children[1:]:
            yield node.children[0], other


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
