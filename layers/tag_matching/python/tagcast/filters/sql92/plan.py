"""The lookup keys of each alternative, and the terms left to evaluate."""

from typing import NamedTuple

from tagcast.filters.sql92.access import Access, Popularity, access_of, presence_of
from tagcast.filters.sql92.alternatives import Alternative
from tagcast.filters.sql92.dialect import Dialect
from tagcast.filters.sql92.expression import CompiledExpression
from tagcast.filters.sql92.failing import failing_dimensions
from tagcast.filters.sql92.terms import Term

COPIES_MAX = 1_024
"""The largest size of all copies of an alternative below its keys. A larger alternative is found by presence."""


class AccessPlan(NamedTuple):
    """The lookup keys of an alternative, and its remaining terms. *access* is None if it is always evaluated.

    *is_exact*: keys and terms decide the alternative; otherwise the full expression is evaluated too.
    """

    access: Access | None
    terms: tuple[Term, ...]
    is_exact: bool


def plan_of(
    expression: CompiledExpression, alternative: Alternative, owners: int, popularity: Popularity
) -> AccessPlan:
    """Choose the keys of an alternative."""
    plan = _with(alternative, access_of(alternative, expression.nodes, expression.dialect, popularity))
    if plan.access is None or len(plan.access.keys) == 1:
        return plan
    size = owners + sum(1 + len(term.values) for term in plan.terms)
    return plan if len(plan.access.keys) * size <= COPIES_MAX else _with(alternative, presence_of(alternative))


def may_hide(expression: CompiledExpression) -> bool:
    """Return whether an alternative may fail and so hide another alternative that is TRUE."""
    return expression.dialect is Dialect.ROCKETMQ and failing_dimensions(expression.nodes) != frozenset()


def _with(alternative: Alternative, access: Access | None) -> AccessPlan:
    implied = access.place if access is not None and access.whole else None
    rest = [part for part in alternative if part.place != implied]
    terms = tuple(term for part in rest for term in part.terms or ())
    return AccessPlan(access, terms, all(part.terms is not None for part in rest))
