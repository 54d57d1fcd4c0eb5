"""Warnings about valid expressions whose meaning may differ from the author's intention."""

import re
from collections.abc import Iterator, Sequence
from functools import partial

from tagcast.filters.explanation import shorten
from tagcast.filters.sql92.dialect import Dialect
from tagcast.filters.sql92.java import is_int
from tagcast.filters.sql92.rocketmq import SEARCHES
from tagcast.filters.sql92.tree import COMPARISONS, Node

_short = partial(shorten, most=60)


def find_traps(text: str, dialect: Dialect, nodes: Sequence[Node], ignored: str) -> tuple[str, ...]:
    """Return the distinct warnings about an expression. The strict dialect has only those about forgotten quotes.

    *ignored* is the text after the complete expression, which the rocketmq dialect ignores.
    """
    found = dict.fromkeys(_forgotten_quotes(text, nodes))
    if dialect is Dialect.STRICT:
        return tuple(found)
    if ignored:
        found[f"the text after the complete expression is ignored: {_short(ignored)}"] = None
        if re.match(r"(?i)like\b", ignored):
            found["LIKE is not supported; use CONTAINS, STARTSWITH or ENDSWITH"] = None
    for node in nodes:
        warning = _trap(text, nodes, node)
        if warning:
            found[warning] = None
    return tuple(found)


def _forgotten_quotes(text: str, nodes: Sequence[Node]) -> Iterator[str]:
    """Yield a warning for each ``=`` or ``<>`` between two properties, because one may be a text without quotes."""
    for node in nodes:
        if node.operator in ("equal", "unequal"):
            children = [nodes[child] for child in node.children]
            if all(child.operator == "property" for child in children):
                name, written = _short(str(children[1].value)), _short(text[node.start : node.end])
                yield f"{written} compares two properties; if {name} is a text, write '{name}'"


def _trap(text: str, nodes: Sequence[Node], node: Node) -> str | None:
    written = _short(text[node.start : node.end])
    children = [nodes[child] for child in node.children]
    if node.operator == "is_true":
        return f"a property alone is never true: {written}; write = 'true' or = TRUE"
    if node.operator == "signed" and children[0].operator == "property":
        return f"a sign before a property is unknown, since properties are texts: {written}"
    if node.operator.removeprefix("not_") in SEARCHES and node.value == "":
        return f"a search for an empty text is never true: {written}"
    is_test = node.operator not in ("and", "or", "not")
    if is_test and children and children[0].operator == "not" and written[:3].upper() == "NOT":
        return f"NOT binds tighter than the comparison: {written} negates only its left side"
    if node.operator not in COMPARISONS:
        return None
    literals = [_literal(nodes, child) for child in node.children]
    properties = any(child.operator == "property" for child in children)
    if properties and any(number is not None and is_int(number) for number in literals):
        return (
            f"a whole number reads the property as a 32-bit int: {written} fails on texts such as "
            "'1700000000000' or '7.0'; write the number with a fraction, such as 100.0"
        )
    if node.operator in ("equal", "unequal") and children[1].operator == "property":
        return f"a missing property on the right side is unequal, not unknown: {written}"
    return None


def _literal(nodes: Sequence[Node], place: int) -> int | None:
    node = nodes[place]
    if node.operator == "signed":
        number = _literal(nodes, node.children[0])
        return None if number is None else int(str(node.value)) * number
    return int(str(node.value)) if node.operator == "integer" else None
