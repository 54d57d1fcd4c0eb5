"""Splits an expression into alternatives. The expression is TRUE when all parts of one alternative have their value.

AND is TRUE when all parts are TRUE, and OR when one part is TRUE. NOT swaps TRUE and FALSE. An error is neither. In the
rocketmq dialect, an expression may fail although one alternative is TRUE, because an earlier part of an OR may fail.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tagcast.filters.sql92.dialect import Dialect
from tagcast.filters.sql92.readings import Dimension, Reading
from tagcast.filters.sql92.terms import ANY, Term, terms_of
from tagcast.filters.sql92.tree import Node

ALTERNATIVES_MAX = 8
PARTS_MAX = 64
"""The most parts of all alternatives of a node. A node with more parts stays one part, to keep the index small."""


@dataclass(frozen=True, slots=True)
class ExpressionPart:
    """A node that must have the value *wanted*. *place* is the node's index in the expression.

    All *terms* hold exactly when the node has this value. *terms* is None if the node cannot be expressed as terms.
    """

    place: int
    wanted: bool
    terms: tuple[Term, ...] | None


Alternative = tuple[ExpressionPart, ...]


def alternatives_of(nodes: Sequence[Node], dialect: Dialect) -> list[Alternative]:
    """Return the alternatives of the expression of *nodes*. They are combined from the leaves up.

    If a node would have too many alternatives, it becomes one part without terms.

    >>> from tagcast.filters.sql92 import compile_sql92
    >>> nodes = compile_sql92("a = 'x' AND NOT (b > 1 AND c = 2)").nodes
    >>> [[part.terms[0].test for part in alternative] for alternative in alternatives_of(nodes, Dialect.STRICT)]
    [['any', 'at_most'], ['any', 'none']]
    """
    wanted = _wanted_values(nodes)
    found: dict[int, list[Alternative]] = {}
    for place in sorted(wanted):
        node, value = nodes[place], wanted[place]
        if node.operator == "not":
            found[place] = found[node.children[0]]
        elif node.operator not in ("and", "or"):
            found[place] = [(ExpressionPart(place, value, terms_of(nodes, place, value, dialect)),)]
        elif (node.operator == "and") is value:
            found[place] = _combine([found[child] for child in node.children], node.children, wanted)
        else:
            each = _unite([alternative for child in node.children for alternative in found[child]])
            small = len(each) <= ALTERNATIVES_MAX and sum(map(len, each)) <= PARTS_MAX
            found[place] = each if small or len(each) == 1 else [(ExpressionPart(place, value, None),)]
    return found[len(nodes) - 1]


def _wanted_values(nodes: Sequence[Node]) -> dict[int, bool]:
    """Return the wanted value of each node that is reached only through AND, OR and NOT."""
    wanted = {len(nodes) - 1: True}
    for place in range(len(nodes) - 1, -1, -1):
        if place in wanted and nodes[place].operator in ("not", "and", "or"):
            value = wanted[place] is not (nodes[place].operator == "not")
            wanted.update(dict.fromkeys(nodes[place].children, value))
    return wanted


def _combine(each: Sequence[list[Alternative]], places: Sequence[int], wanted: dict[int, bool]) -> list[Alternative]:
    """Return all combinations of the children's alternatives (*each*). A child with too many becomes one part."""
    made: list[list[ExpressionPart]] = [[]]
    for choices, place in zip(each, places, strict=True):
        count = len(made) * len(choices)
        if len(choices) > 1 and (
            count > ALTERNATIVES_MAX or count * max(map(len, made)) + len(made) * sum(map(len, choices)) > PARTS_MAX
        ):
            choices = [(ExpressionPart(place, wanted[place], None),)]
        if len(choices) == 1:
            for parts in made:
                parts.extend(choices[0])
        else:
            made = [[*parts, *choice] for parts in made for choice in choices]
    return [tuple(parts) for parts in made]


def _unite(each: list[Alternative]) -> list[Alternative]:
    """Merge the alternatives that only compare a dimension with values, into one for each dimension."""
    made: list[Alternative] = []
    values: dict[Dimension, dict[Reading, None]] = {}
    first: dict[Dimension, int] = {}
    for alternative in each:
        term = _only_values(alternative)
        if term is None:
            made.append(alternative)
            continue
        if term.dimension not in first:
            first[term.dimension] = len(made)
            made.append(alternative)
        values.setdefault(term.dimension, {}).update(dict.fromkeys(term.values))
    for dimension, place in first.items():
        part = made[place][0]
        made[place] = (ExpressionPart(part.place, part.wanted, (Term(dimension, ANY, tuple(values[dimension])),)),)
    return made


def _only_values(alternative: Alternative) -> Term | None:
    if len(alternative) != 1 or alternative[0].terms is None or len(alternative[0].terms) != 1:
        return None
    term = alternative[0].terms[0]
    return term if term.test == ANY else None
