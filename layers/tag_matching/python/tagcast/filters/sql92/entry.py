"""One alternative of an expression: the terms left to evaluate after an index found it by a key."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tagcast.filters.sql92.readings import Dimension, as_row, from_row
from tagcast.filters.sql92.terms import Term

# Most expressions of a topic read the same few properties: share one object among their terms.
_dimension = lru_cache(maxsize=4_096)(Dimension)


class SqlEntry(NamedTuple):
    """The owners, the remaining terms, and the index of the full expression if the terms are not exact."""

    owners: list[int]
    terms: tuple[Term, ...]
    whole: int | None

    def as_row(self) -> list[object]:
        """Return plain lists and texts, for a snapshot."""
        return [self.owners, [term_row(term) for term in self.terms], self.whole]

    @classmethod
    def from_row(cls, owners: list[int], terms: Sequence[Sequence[str]], whole: int | None) -> "SqlEntry":
        """Restore the entry of :meth:`as_row`."""
        return cls(owners, tuple([term_from_row(*row) for row in terms]), whole)


def term_row(term: Term) -> list[object]:
    """Return a term as plain lists and texts."""
    return [*term.dimension, term.test, *map(as_row, term.values)]


def term_from_row(kind: str, name: str, test: str, *values: str | bool | float) -> Term:
    """Restore the term of :func:`term_row`.

    >>> term_from_row(*term_row(Term(Dimension("number", "a"), "above", (5,))))
    Term(dimension=Dimension(kind='number', name='a'), test='above', values=(5,))
    """
    return Term(_dimension(kind, name), test, tuple([from_row(kind, value) for value in values]))
