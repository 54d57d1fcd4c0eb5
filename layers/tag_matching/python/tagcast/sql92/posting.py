"""Many strict expressions as one generated function: what is left to ask after the index has found them.

The generated source consists of fixed operators and positional names (``t0``, ``n1``, ``k2``) only. Every text and
number of a subscriber is a value bound to such a name; nothing that a subscriber wrote becomes source.
"""

from collections.abc import Callable, Mapping, MutableSequence, Sequence
from typing import Any, NamedTuple, Protocol

from tagcast.sql92.numbers import Number
from tagcast.sql92.strict import constant_number, strict_leaf, text_predicate
from tagcast.sql92.tree import OPERANDS, Node

NODES_MAX = 200
LEVELS_MAX = 20
_SYMBOLS = {"equal": "==", "unequal": "!=", "less": "<", "at_most": "<=", "greater": ">", "at_least": ">="}
_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_LITERALS = {"true": ("True", "False"), "false": ("False", "True"), "null": ("False", "False")}
_JUNCTIONS = {True: " and ", False: " or "}


class Numbers(Protocol):
    """The properties of a message read as numbers."""

    def get(self, name: str, /) -> Number | None:
        """The number, or ``None`` if the property is missing or no number."""
        ...


Test = Callable[[Mapping[str, str], Numbers, MutableSequence[int]], None]


class Candidate(NamedTuple):
    """An expression with the positions that have it; the leaf ``origin`` is known to be TRUE."""

    nodes: tuple[Node, ...]
    origin: int
    positions: Sequence[int]


def can_generate(nodes: Sequence[Node]) -> bool:
    """Whether an expression is small enough, and compares no conditions with each other."""
    if len(nodes) > NODES_MAX:
        return False
    levels: list[int] = []
    for node in nodes:
        levels.append(1 + max((levels[child] for child in node.children), default=0))
        is_test = node.operator not in OPERANDS and node.operator not in ("and", "or", "not")
        if is_test and any(nodes[child].operator not in OPERANDS for child in node.children):
            return False
    return levels[-1] <= LEVELS_MAX


def generate(candidates: Sequence[Candidate]) -> Test:
    """One function that appends the positions of all candidates whose expression is TRUE.

    >>> from tagcast.sql92 import compile_sql92
    >>> test = generate([Candidate(compile_sql92("a > 1 AND NOT b = 'x'").nodes, -1, [7])])
    >>> found = []; test({"a": "2", "b": "y"}, {"a": 2}, found); found
    [7]
    """
    writer = _Writer()
    lines = [
        f" if {writer.condition(candidate)}: out.extend({writer.constant(tuple(candidate.positions))})"
        for candidate in candidates
    ]
    source = "\n".join(["def test(p, n, out):", *writer.prologue(), *lines])
    space: dict[str, Any] = {"__builtins__": {}, **writer.constants}
    exec(compile(source, "<posting>", "exec"), space)
    generated: Test = space["test"]
    return generated


class _Writer:
    """Collects the constants and the property views that the source names."""

    def __init__(self) -> None:
        self.constants: dict[str, object] = {}
        self._texts: dict[str, str] = {}
        self._numbers: dict[str, str] = {}

    def constant(self, value: object) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def prologue(self) -> list[str]:
        """Each property is read once."""
        texts = [f" {view} = p.get({self.constant(name)})" for name, view in self._texts.items()]
        return texts + [f" {view} = n.get({self.constant(name)})" for name, view in self._numbers.items()]

    def condition(self, candidate: Candidate) -> str:
        """The source of "the expression is TRUE", built from the leaves up in both polarities."""
        nodes = candidate.nodes
        sources: list[tuple[str, str]] = []
        for place, node in enumerate(nodes):
            children = [sources[child] for child in node.children]
            if place == candidate.origin:
                sources.append(("True", "True"))
            elif node.operator in OPERANDS:
                sources.append(("", ""))
            elif node.operator in _LITERALS:
                sources.append(_LITERALS[node.operator])
            elif node.operator == "not":
                sources.append((children[0][1], children[0][0]))
            elif node.operator in ("and", "or"):
                conjunction = node.operator == "and"
                true = _joined([true for true, _ in children], conjunction)
                sources.append((true, _joined([false for _, false in children], not conjunction)))
            else:
                sources.append(self._leaf(nodes, place))
        return sources[-1][0]

    def _leaf(self, nodes: Sequence[Node], place: int) -> tuple[str, str]:
        node = nodes[place]
        subject = nodes[node.children[0]] if node.children else node
        name = str(subject.value)
        if subject.operator == "property":
            if node.operator in ("is_null", "is_not_null"):
                pair = f"{self._text(name)} is None", f"{self._text(name)} is not None"
                return pair if node.operator == "is_null" else pair[::-1]
            if node.operator in ("in", "not_in"):
                wanted = self.constant(text_predicate(node).__self__)  # type: ignore[attr-defined]
                pair = self._tested(name, f"in {wanted}", f"not in {wanted}")
                return pair if node.operator == "in" else pair[::-1]
            compared = self._comparison(nodes, node, name)
            if compared is not None:
                return compared
        evaluation = self.constant(strict_leaf(nodes, place))
        return f"{evaluation}(p, ()) is True", f"{evaluation}(p, ()) is False"

    def _comparison(self, nodes: Sequence[Node], node: Node, name: str) -> tuple[str, str] | None:
        numbers = [constant_number(nodes, child) for child in node.children[1:]]
        symbol = _SYMBOLS.get(node.operator)
        if symbol is not None and nodes[node.children[1]].operator == "text":
            value = self.constant(nodes[node.children[1]].value)
            return self._tested(name, f"{symbol} {value}", f"{_OPPOSITES[symbol]} {value}")
        bounds = [number for number in numbers if number is not None]
        if not bounds or len(bounds) < len(numbers):
            return None
        view = self._numbers.setdefault(name, f"n{len(self._numbers)}")
        known = f"{view} is not None and "
        if symbol is not None:
            value = self.constant(bounds[0])
            return f"({known}{view} {symbol} {value})", f"({known}{view} {_OPPOSITES[symbol]} {value})"
        if node.operator not in ("between", "not_between"):
            return None
        low, high = self.constant(bounds[0]), self.constant(bounds[1])
        inside = f"({known}{low} <= {view} <= {high})"
        outside = f"({known}not {low} <= {view} <= {high})"
        return (inside, outside) if node.operator == "between" else (outside, inside)

    def _tested(self, name: str, true: str, false: str) -> tuple[str, str]:
        """Both polarities of a test on a text; the one that a missing text would pass asks for the text first."""
        view = self._text(name)
        pair = [f"{view} {true}", f"{view} {false}"]
        loose = 1 if true.startswith(("==", "in ")) else 0
        pair[loose] = f"({view} is not None and {pair[loose]})"
        return pair[0], pair[1]

    def _text(self, name: str) -> str:
        return self._texts.setdefault(name, f"t{len(self._texts)}")


def _joined(parts: Sequence[str], conjunction: bool) -> str:
    neutral = "True" if conjunction else "False"
    kept = [part for part in parts if part != neutral]
    return f"({_JUNCTIONS[conjunction].join(kept)})" if kept else neutral
