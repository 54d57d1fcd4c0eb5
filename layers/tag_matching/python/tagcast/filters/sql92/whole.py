"""An expression that is asked as a whole, because terms do not say all of it."""

from collections.abc import Mapping

from tagcast.errors import FilterEvaluationError
from tagcast.filters.sql92.expression import CompiledExpression, compile_sql92


class Whole:
    """The text of an expression, compiled when it is needed.

    >>> Whole.from_row("a < b", "strict").is_true({"a": "1", "b": "2"})
    True
    """

    __slots__ = ("_expression", "dialect", "text")

    def __init__(self, text: str, dialect: str, expression: CompiledExpression | None) -> None:
        self.text = text
        self.dialect = dialect
        self._expression = expression

    @classmethod
    def of(cls, expression: CompiledExpression) -> "Whole":
        """The whole of a compiled expression."""
        return cls(expression.text, expression.dialect.value, expression)

    def is_true(self, texts: Mapping[str, str]) -> bool:
        """Whether the expression is TRUE; one that fails is not."""
        try:
            return self._compiled().evaluate(texts) is True
        except FilterEvaluationError:
            return False

    def fails(self, texts: Mapping[str, str]) -> bool:
        """Whether the expression fails."""
        try:
            self._compiled().evaluate(texts)
        except FilterEvaluationError:
            return True
        return False

    def as_row(self) -> list[object]:
        """Plain texts, for a snapshot."""
        return [self.text, self.dialect]

    @classmethod
    def from_row(cls, text: str, dialect: str) -> "Whole":
        """The whole that :meth:`as_row` described."""
        return cls(text, dialect, None)

    def _compiled(self) -> CompiledExpression:
        if self._expression is None:
            self._expression = compile_sql92(self.text, self.dialect)
        return self._expression
