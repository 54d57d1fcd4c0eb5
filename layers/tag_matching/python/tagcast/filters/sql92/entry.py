"""The entries of the SQL92 index, as alternatives of expressions, and the expressions whose evaluation may fail."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tagcast.filters.sql92.alternatives import Alternative
from tagcast.filters.sql92.dialect import Dialect
from tagcast.filters.sql92.expression import CompiledExpression
from tagcast.filters.sql92.readings import Dimension, PropertyReadings, as_row, from_row
from tagcast.filters.sql92.terms import MISSING, PRESENT, Term, is_search

# Most expressions of a topic read the same few properties: share one object among their terms.
_dimension = lru_cache(maxsize=4_096)(Dimension)


class SqlEntry(NamedTuple):
    """An alternative of an expression. The *owners* are the ordinals of the subscriptions with this expression.

    The entry matches if all *terms* hold, and the full expression with the number *whole* is TRUE. If *whole* is None,
    the terms alone decide.
    """

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
    """Return a term as a plain list, for a snapshot."""
    return [*term.dimension, term.test, *map(as_row, term.values)]


def term_from_row(kind: str, name: str, test: str, *values: str | bool | float) -> Term:
    """Restore a term from its :func:`term_row`.

    >>> term_from_row(*term_row(Term(Dimension("number", "a"), "above", (5,))))
    Term(dimension=Dimension(kind='number', name='a'), test='above', values=(5,))
    """
    return Term(_dimension(kind, name), test, tuple([from_row(kind, value) for value in values]))


class Suspect(NamedTuple):
    """An expression whose evaluation may fail. *owners* are the ordinals of the subscriptions with this expression.

    If terms can decide whether the expression fails, *terms* lists them in order of evaluation, and *whole* is None.
    Otherwise *whole* is the expression.
    """

    owners: list[int]
    terms: tuple[Term, ...]
    whole: CompiledExpression | None

    @classmethod
    def of(cls, owners: list[int], alternatives: Sequence[Alternative], whole: CompiledExpression) -> "Suspect":
        """Return the suspect of the expression *whole*.

        It has terms if the expression has one alternative, and all parts of this alternative have terms. Otherwise the
        suspect has the full expression.
        """
        if len(alternatives) > 1 or any(part.terms is None for part in alternatives[0]):
            return cls(owners, (), whole)
        return cls(owners, tuple(term for part in alternatives[0] for term in part.terms or ()), None)

    def fails(self, view: PropertyReadings) -> bool:
        """Return whether the expression fails for the properties in *view*.

        Terms are evaluated in their order. A term that is FALSE ends the evaluation, and the expression does not fail.
        """
        if self.whole is not None:
            return self.whole.fails(view.texts)
        for term in self.terms:
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
        whole = None if self.whole is None else [self.whole.text, self.whole.dialect]
        return [self.owners, [term_row(term) for term in self.terms], whole]

    @classmethod
    def from_row(cls, owners: list[int], terms: Sequence[Any], whole: Sequence[str] | None) -> "Suspect":
        """Restore a suspect from its :meth:`as_row`."""
        restored = tuple(term_from_row(*row) for row in terms)
        return cls(owners, restored, None if whole is None else CompiledExpression(whole[0], Dialect(whole[1])))
