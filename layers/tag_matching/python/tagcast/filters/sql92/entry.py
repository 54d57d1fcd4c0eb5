"""One alternative of one of many expressions: what is left to ask when an index has found it by a key."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tagcast.filters.sql92.readings import Dimension, as_row, from_row
from tagcast.filters.sql92.terms import Term

# Most expressions of a topic read the same few properties: one value for each, not one for each term.
_dimension = lru_cache(maxsize=4_096)(Dimension)


class Entry(NamedTuple):
    """Who owns the expression, the terms still to be asked, and the number of the whole if those do not say all."""

    owners: list[int]
    terms: tuple[Term, ...]
    whole: int | None

    def as_row(self) -> list[object]:
        """Plain lists and texts, for a snapshot."""
        return [self.owners, [term_row(term) for term in self.terms], self.whole]

    @classmethod
    def from_row(cls, owners: list[int], terms: Sequence[Sequence[str]], whole: int | None) -> "Entry":
        """The entry that :meth:`as_row` described."""
        return cls(owners, tuple([term_from_row(*row) for row in terms]), whole)


def term_row(term: Term) -> list[object]:
    """A term as plain lists and texts."""
    return [*term.dimension, term.test, *map(as_row, term.values)]


def term_from_row(kind: str, name: str, test: str, *values: str | bool | float) -> Term:
    """The term that :func:`term_row` described.

    >>> term_from_row(*term_row(Term(Dimension("number", "a"), "above", (5,))))
    Term(dimension=Dimension(kind='number', name='a'), test='above', values=(5,))
    """
    return Term(_dimension(kind, name), test, tuple([from_row(kind, value) for value in values]))
