"""A compiled SQL92 expression: plain data with methods to evaluate and explain it."""

from collections.abc import Mapping
from typing import Any

from tagcast.errors import FilterEvaluationError, FilterSyntaxError
from tagcast.filters.explanation import Explanation
from tagcast.filters.sql92.dialect import CHARACTERS_MAX, Dialect
from tagcast.filters.sql92.explain import explain_nodes
from tagcast.filters.sql92.parser import Parser
from tagcast.filters.sql92.steps import Step, build_steps, run_steps
from tagcast.filters.sql92.traps import find_traps
from tagcast.filters.sql92.tree import Node


class CompiledExpression:
    """A compiled expression, which can be pickled. Expressions with the same text and dialect are equal.

    *parsed* has the nodes and the warnings. If *parsed* is None, the text is parsed at the first use.
    """

    __slots__ = ("_parsed", "_ready", "dialect", "text")

    def __init__(
        self, text: str, dialect: Dialect, parsed: tuple[tuple[Node, ...], tuple[str, ...]] | None = None
    ) -> None:
        self.text = text
        self.dialect = dialect
        self._parsed = parsed
        self._ready: tuple[list[Step], int] | None = None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the expression. The root is the last node."""
        return self._parse()[0]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about parts of the expression that may not mean what the author intended."""
        return self._parse()[1]

    def _parse(self) -> tuple[tuple[Node, ...], tuple[str, ...]]:
        if self._parsed is None:
            parser = Parser(self.text, self.dialect)
            nodes = parser.parse()
            self._parsed = nodes, find_traps(self.text, self.dialect, nodes, parser.ignored)
        return self._parsed

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """Return ``True``, ``False`` or ``None`` (unknown). The expression matches only if the value is ``True``.

        Raises :class:`tagcast.errors.FilterEvaluationError` if the evaluation fails, in the rocketmq dialect only.

        >>> compile_sql92("price > 100").evaluate({"price": "120"})
        True
        """
        ready = self._ready
        if ready is None:
            ready = self._ready = build_steps(self.nodes, self.dialect), len(self.nodes)
        steps, count = ready
        return run_steps(steps, properties, [None] * count)

    def is_true(self, properties: Mapping[str, str]) -> bool:
        """Return whether the expression is TRUE. A failing expression is not TRUE."""
        try:
            return self.evaluate(properties) is True
        except FilterEvaluationError:
            return False

    def fails(self, properties: Mapping[str, str]) -> bool:
        """Return whether the evaluation fails for *properties*. Only the rocketmq dialect can fail."""
        try:
            self.evaluate(properties)
        except FilterEvaluationError:
            return True
        return False

    def explain(self, properties: Mapping[str, str]) -> Explanation:
        """Return a tree with the value of each part of the expression, and with the properties that the part reads.

        >>> compile_sql92("a = '1' OR b = '2'").explain({"b": "2"}).children[0].note
        'a is missing'
        """
        return explain_nodes(self.text, self.nodes, self.dialect, properties)

    def __reduce__(self) -> tuple[Any, ...]:
        plain = tuple(tuple(node) for node in self.nodes)
        return restore, (self.text, self.dialect.value, plain, self.warnings)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CompiledExpression):
            return NotImplemented
        return (self.text, self.dialect) == (other.text, other.dialect)

    def __hash__(self) -> int:
        return hash((self.text, self.dialect))

    def __repr__(self) -> str:
        return f"compile_sql92({self.text!r}, {self.dialect.value!r})"


def compile_sql92(expression: str, dialect: str = "strict") -> CompiledExpression:
    """Parse, check and compile an expression. *dialect* is ``strict`` or ``rocketmq``.

    Raises :class:`tagcast.errors.FilterSyntaxError` with the position, and with the found and the expected text.

    >>> compile_sql92("price > ").evaluate({})
    Traceback (most recent call last):
        ...
    tagcast.errors.FilterSyntaxError: Unexpected end of the expression at column 9. \
Expected a property or a value, e.g. price > 100.
    """
    chosen = Dialect(dialect)
    if len(expression) > CHARACTERS_MAX:
        raise FilterSyntaxError("Too many characters", 1, 1, hint=f"At most {CHARACTERS_MAX} are allowed")
    compiled = CompiledExpression(expression, chosen)
    compiled._parse()
    return compiled


def restore(text: str, dialect: str, plain: Any, warnings: Any) -> CompiledExpression:
    """Restore a pickled expression without parsing its text. *plain* are its nodes as tuples."""
    nodes = tuple(Node(op, value, tuple(children), start, end) for op, value, children, start, end in plain)
    return CompiledExpression(text, Dialect(dialect), (nodes, tuple(warnings)))
