"""One of many expressions: what is left to ask when an index has found it."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tagcast.errors import FilterEvaluationError
from tagcast.filters.sql92.access import Access
from tagcast.filters.sql92.expression import CompiledExpression, compile_sql92
from tagcast.filters.sql92.readings import Dimension, MessageView, as_row, from_row
from tagcast.filters.sql92.terms import MISSING, PRESENT, Term, conjuncts_of

# Most expressions of a topic read the same few properties: one value for each, not one for each term.
_dimension = lru_cache(maxsize=4_096)(Dimension)


class Entry:
    """An expression as terms, with its owners; ``text`` only if there is more to it than terms.

    The terms ``implied[0]`` … ``implied[1] - 1`` are known to hold when the index has found the entry by its keys.
    ``is_partial`` if the expression may not be TRUE though all its terms hold.
    """

    __slots__ = ("_expression", "dialect", "implied", "is_partial", "owners", "terms", "text")

    def __init__(
        self,
        owners: list[int],
        terms: tuple[Term, ...],
        implied: tuple[int, int] = (0, 0),
        is_partial: bool = False,
        text: str | None = None,
        dialect: str = "",
    ) -> None:
        self.owners = owners
        self.terms = terms
        self.implied = implied
        self.is_partial = is_partial
        self.text = text
        self.dialect = dialect
        self._expression: CompiledExpression | None = None

    @classmethod
    def of(cls, expression: CompiledExpression, access: Access | None, owners: list[int]) -> "Entry":
        """The entry of an expression that will be found by ``access``."""
        terms: list[Term] = []
        implied, is_partial, is_whole = (0, 0), False, True
        for part in conjuncts_of(expression.nodes, expression.dialect):
            if access is not None and access.whole and access.place == part.place:
                implied = (len(terms), len(terms) + len(part.terms or ()))
            else:
                is_partial = is_partial or part.terms is None
            is_whole = is_whole and part.terms is not None
            terms.extend(part.terms or ())
        if is_whole:
            return cls(owners, tuple(terms), implied)
        entry = cls(owners, tuple(terms), implied, is_partial, expression.text, expression.dialect.value)
        entry._expression = expression
        return entry

    def residual(self) -> tuple[Term, ...]:
        """The terms that are still to be asked."""
        first, last = self.implied
        return self.terms[:first] + self.terms[last:]

    def is_true(self, texts: Mapping[str, str]) -> bool:
        """Whether the whole expression, which has a text, is TRUE; one that fails is not."""
        try:
            return self._compiled().evaluate(texts) is True
        except FilterEvaluationError:
            return False

    def fails(self, view: MessageView) -> bool:
        """Whether the expression, one of the rocketmq dialect, fails: its terms are asked from left to right."""
        if self.text is not None:
            try:
                self._compiled().evaluate(view.texts)
            except FilterEvaluationError:
                return True
            return False
        for term in self.terms:
            value = view.get(term.dimension)
            if value is not None:
                if not term.holds(value):
                    return False
            elif term.dimension.name not in view.texts:
                if term.test == PRESENT:
                    return False
            elif term.test != MISSING:
                return True
        return False

    def as_row(self) -> list[object]:
        """Plain lists and texts, for a snapshot."""
        terms = [[*term.dimension, term.test, *map(as_row, term.values)] for term in self.terms]
        return [self.owners, terms, list(self.implied), self.is_partial, self.text, self.dialect]

    @classmethod
    def from_row(cls, owners: list[int], terms: Sequence[Sequence[str]], implied: list[int], *rest: Any) -> "Entry":
        """The entry that :meth:`as_row` described."""
        restored = tuple(
            [
                Term(_dimension(kind, name), test, tuple([from_row(kind, value) for value in values]))
                for kind, name, test, *values in terms
            ]
        )
        return cls(owners, restored, (implied[0], implied[1]), *rest)

    def _compiled(self) -> CompiledExpression:
        if self._expression is None:
            assert self.text is not None
            self._expression = compile_sql92(self.text, self.dialect)
        return self._expression
