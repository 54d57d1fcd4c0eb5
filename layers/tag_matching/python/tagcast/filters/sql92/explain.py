"""Explains the value of an expression as a tree that has the value of every part."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from tagcast.errors import FilterEvaluationError
from tagcast.filters.explanation import Explanation, Value, shorten
from tagcast.filters.sql92.dialect import Dialect
from tagcast.filters.sql92.numbers import number_of, truth_of
from tagcast.filters.sql92.steps import build_steps, run_steps
from tagcast.filters.sql92.strict import sort_of
from tagcast.filters.sql92.tree import COMPARISONS, EQUALITIES, OPERANDS, Node

TEXT_LENGTH_MAX = 256
"""A part with children shows at most 256 characters of its text, because the children repeat the text."""
VALUE_LENGTH_MAX = 64


def explain_nodes(text: str, nodes: Sequence[Node], dialect: Dialect, properties: Mapping[str, str]) -> Explanation:
    """Return a tree with the value of each part of the expression for *properties*. *text* is the expression.

    A part that was not evaluated has the value ``"skipped"``. If a part fails, it and the parts around it have the
    value ``"error"``.
    """
    values: list[Value] = ["skipped"] * len(nodes)
    steps = build_steps(nodes, dialect)
    reason, failed = "", -1
    try:
        run_steps(steps, properties, cast("list[bool | None]", values))
    except FilterEvaluationError as error:
        reason = error.message
        last = max((place for place, value in enumerate(values) if value != "skipped"), default=-1)
        failed = min(place for _, place, *_ in steps if place > last)
    errors = _with_parents(nodes, failed)
    made: dict[int, Explanation] = {}
    for place, node in enumerate(nodes):
        if node.operator in OPERANDS:
            continue
        value: Value = "error" if place in errors else values[place]
        notes = list(_notes(nodes, node, properties, dialect)) + ([reason] if place == failed else [])
        children = tuple(made[child] for child in _conditions(nodes, node))
        shown = text[node.start : node.end]
        if children:
            shown = shorten(shown, TEXT_LENGTH_MAX)
        made[place] = Explanation(shown, value, children, "; ".join(notes))
    return made[len(nodes) - 1]


def _conditions(nodes: Sequence[Node], node: Node) -> Iterator[int]:
    for child in node.children:
        if nodes[child].operator == "signed":
            yield from _conditions(nodes, nodes[child])
        elif nodes[child].operator not in OPERANDS:
            yield child


def _with_parents(nodes: Sequence[Node], failed: int) -> set[int]:
    found = {failed}
    for place in range(failed + 1, len(nodes)) if failed >= 0 else ():
        if not found.isdisjoint(nodes[place].children):
            found.add(place)
    return found


def _wanted_sort(nodes: Sequence[Node], node: Node) -> str:
    """Return ``number`` or ``truth`` if the strict dialect reads the node's properties so, otherwise an empty text."""
    if node.operator == "is_true":
        return "truth"
    if node.operator in EQUALITIES.values():
        sorts = {sort_of(nodes, child) for child in node.children}
        return next((sort for sort in ("truth", "number") if sort in sorts), "")
    return "number" if node.operator in COMPARISONS else ""


def _properties(nodes: Sequence[Node], node: Node) -> Iterator[int]:
    for child in node.children:
        if nodes[child].operator == "property":
            yield child
        elif nodes[child].operator == "signed":
            yield from _properties(nodes, nodes[child])


def _odd(properties: Mapping[str, str], name: str, want: str) -> bool:
    text = properties.get(name)
    return text is not None and (number_of(text) if want == "number" else truth_of(text)) is None


def _notes(nodes: Sequence[Node], node: Node, properties: Mapping[str, str], dialect: Dialect) -> Iterator[str]:
    want = _wanted_sort(nodes, node) if dialect is Dialect.STRICT else ""
    for name in dict.fromkeys(str(nodes[child].value) for child in _properties(nodes, node)):
        text = properties.get(name)
        note = f"{name} is missing" if text is None else f"{name} is {shorten(text, VALUE_LENGTH_MAX)!r}"
        if want and _odd(properties, name, want):
            note += ", which is not a number" if want == "number" else ", which is neither true nor false"
        yield note
