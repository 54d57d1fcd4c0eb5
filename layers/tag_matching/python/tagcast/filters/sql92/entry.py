"""Entries of the SQL92 index: terms, full expressions if terms do not decide, and expressions that may fail."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tagcast.errors import FilterEvaluationError
from tagcast.filters.sql92.alternatives import Alternative
from tagcast.filters.sql92.expression import CompiledExpression, compile_sql92
from tagcast.filters.sql92.readings import Dimension, PropertyReadings, as_row, from_row
from tagcast.filters.sql92.terms import MISSING, PRESENT, Term, is_search


class FullExpression:
    """An expression that is stored as text and compiled at its first use.

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
        """Return *expression* as a full expression, which needs no further compilation."""
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
        """Return the expression as plain texts, for a snapshot."""
        return [self.text, self.dialect]

    @classmethod
    def from_row(cls, text: str, dialect: str) -> "FullExpression":
        """Restore an expression from its :meth:`as_row`."""
        return cls(text, dialect, None)

    def _compiled(self) -> CompiledExpression:
        if self._expression is None:
            self._expression = compile_sql92(self.text, self.dialect)
        return self._expression


# Most expressions of a topic read the same few properties: share one object among their terms.
_dimension = lru_cache(maxsize=4_096)(Dimension)


class SqlEntry(NamedTuple):
    """An alternative of an expression. *whole* is the number of the full expression, or None if the terms decide."""

    owners: list[int]
    terms: tuple[Term, ...]
    whole: int | None

    def as_row(self) -> list[object]:
        """Return the entry as plain lists and texts, for a snapshot."""
        return [self.owners, [term_row(term) for term in self.terms], self.whole]

    @classmethod
    def from_row(cls, owners: list[int], terms: Sequence[Sequence[str]], whole: int | None) -> "SqlEntry":
        """Restore an entry from its :meth:`as_row`."""
        return cls(owners, tuple([term_from_row(*row) for row in terms]), whole)


def term_row(term: Term) -> list[object]:
    """Return a term as a plain list."""
    return [*term.dimension, term.test, *map(as_row, term.values)]


def term_from_row(kind: str, name: str, test: str, *values: str | bool | float) -> Term:
    """Restore a term from its :func:`term_row`.

    >>> term_from_row(*term_row(Term(Dimension("number", "a"), "above", (5,))))
    Term(dimension=Dimension(kind='number', name='a'), test='above', values=(5,))
    """
    return Term(_dimension(kind, name), test, tuple([from_row(kind, value) for value in values]))


class Suspect:
    """An expression whose evaluation may fail. *owners* are the ordinals of the subscriptions that have it.

    If its terms suffice, the suspect stores them in order of evaluation. Otherwise it stores the full expression.
    """

    __slots__ = ("_terms", "_whole", "owners")

    def __init__(self, owners: list[int], terms: tuple[Term, ...], whole: FullExpression | None) -> None:
        self.owners = owners
        self._terms = terms
        self._whole = whole

    @classmethod
    def of(cls, owners: list[int], alternatives: Sequence[Alternative], whole: FullExpression) -> "Suspect":
        """Return the suspect: as terms, or as *whole* if there are several alternatives or a part without terms."""
        if len(alternatives) > 1:
            return cls(owners, (), whole)
        terms: list[Term] = []
        for part in alternatives[0]:
            if part.terms is None:
                return cls(owners, (), whole)
            terms += part.terms
        return cls(owners, tuple(terms), None)

    def fails(self, view: PropertyReadings) -> bool:
        """Return whether the expression fails. Terms are evaluated from left to right, until a term is not TRUE."""
        if self._whole is not None:
            return self._whole.fails(view.texts)
        for term in self._terms:
            value = view.get(term.dimension)
            if value is not None:
                if not term.holds(value):
                    return False
            elif term.dimension.name not in view.texts:
                if term.test == PRESENT or is_search(term.test):
                    return False
            elif term.test != MISSING:
                return True
        return False

    def as_row(self) -> list[object]:
        """Return the suspect as plain lists and texts, for a snapshot."""
        return [
            self.owners,
            [term_row(term) for term in self._terms],
            None if self._whole is None else self._whole.as_row(),
        ]

    @classmethod
    def from_row(cls, owners: list[int], terms: Sequence[Any], whole: Sequence[str] | None) -> "Suspect":
        """Restore a suspect from its :meth:`as_row`."""
        restored = tuple(term_from_row(*row) for row in terms)
        return cls(owners, restored, None if whole is None else FullExpression.from_row(*whole))
