"""An expression of the rocketmq dialect that may fail: used to find failures."""

from collections.abc import Sequence
from typing import Any

from tagcast.filters.sql92.alternatives import Alternative
from tagcast.filters.sql92.entry import term_from_row, term_row
from tagcast.filters.sql92.readings import PropertyReadings
from tagcast.filters.sql92.terms import MISSING, PRESENT, Term, is_search
from tagcast.filters.sql92.whole import FullExpression


class Suspect:
    """An expression that may fail, with its owners: as terms in evaluation order, or as the full expression."""

    __slots__ = ("_terms", "_whole", "owners")

    def __init__(self, owners: list[int], terms: tuple[Term, ...], whole: FullExpression | None) -> None:
        self.owners = owners
        self._terms = terms
        self._whole = whole

    @classmethod
    def of(cls, owners: list[int], alternatives: Sequence[Alternative], whole: FullExpression) -> "Suspect":
        """Return the suspect of an expression.

        It has the terms; or *whole*, if the expression has several alternatives or a part without terms.
        """
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
        """Return plain lists and texts, for a snapshot."""
        return [
            self.owners,
            [term_row(term) for term in self._terms],
            None if self._whole is None else self._whole.as_row(),
        ]

    @classmethod
    def from_row(cls, owners: list[int], terms: Sequence[Any], whole: Sequence[str] | None) -> "Suspect":
        """Restore the suspect of :meth:`as_row`."""
        restored = tuple(term_from_row(*row) for row in terms)
        return cls(owners, restored, None if whole is None else FullExpression.from_row(*whole))
