"""The full expression of an entry, evaluated if the entry's terms are not exact."""

from collections.abc import Mapping

from tagcast.errors import FilterEvaluationError
from tagcast.filters.sql92.expression import CompiledExpression, compile_sql92


class FullExpression:
    """The text of an expression, compiled on first use.

    >>> FullExpression.from_row("a < b", "strict").is_true({"a": "1", "b": "2"})
    True
    """

    __slots__ = ("_expression", "dialect", "text")

    def __init__(self, text: str, dialect: str, expression: CompiledExpression | None) -> None:
        self.text = text
        self.dialect = dialect
        self._expression = expression

    @classmethod
    def of(cls, expression: CompiledExpression) -> "FullExpression":
        """Wrap a compiled expression."""
        return cls(expression.text, expression.dialect.value, expression)

    def is_true(self, texts: Mapping[str, str]) -> bool:
        """Return whether the expression is TRUE. A failing expression is not TRUE."""
        try:
            return self._compiled().evaluate(texts) is True
        except FilterEvaluationError:
            return False

    def fails(self, texts: Mapping[str, str]) -> bool:
        """Return whether the expression fails."""
        try:
            self._compiled().evaluate(texts)
        except FilterEvaluationError:
            return True
        return False

    def as_row(self) -> list[object]:
        """Return plain texts, for a snapshot."""
        return [self.text, self.dialect]

    @classmethod
    def from_row(cls, text: str, dialect: str) -> "FullExpression":
        """Restore the expression of :meth:`as_row`."""
        return cls(text, dialect, None)

    def _compiled(self) -> CompiledExpression:
        if self._expression is None:
            self._expression = compile_sql92(self.text, self.dialect)
        return self._expression
