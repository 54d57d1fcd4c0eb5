"""Chooses lookup keys. An alternative of an expression can be TRUE only if the message has one of its lookup keys."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from math import frexp
from typing import NamedTuple

from tagcast.filters.sql92.alternatives import Alternative
from tagcast.filters.sql92.dialect import Dialect
from tagcast.filters.sql92.expression import CompiledExpression
from tagcast.filters.sql92.readings import JAVA_DOUBLE, JAVA_INT, JAVA_LONG, PRESENCE, Dimension, Reading
from tagcast.filters.sql92.terms import ANY, MISSING, Term, failing_dimensions, terms_of
from tagcast.filters.sql92.tree import OPERANDS, Node

_MAY_FAIL = frozenset({JAVA_INT, JAVA_LONG, JAVA_DOUBLE})
KEYS_MAX = 1_024
"""The most keys of an alternative. One with more keys is found by a property's presence, or is always evaluated."""


class LookupKey(NamedTuple):
    """A value that a property must have. *dimension* says which property, and how its text is read.

    A message has the key if its property, read in this way, has *value*.
    """

    dimension: Dimension
    value: Reading


class Access(NamedTuple):
    """The lookup keys of a node, which is a part of an expression. *place* is the node's index in the expression.

    The node can have its wanted value (TRUE or FALSE) only if the message has one of *keys*. If *whole*, one of the
    keys is also enough.
    """

    keys: tuple[LookupKey, ...]
    place: int
    whole: bool


Needs = tuple[Access | None, Access | None]
"""The access of a node for the value TRUE, and its access for FALSE (None: no keys)."""


class Popularity:
    """Counts the alternatives that have each lookup key. The counts serve to estimate how many messages have a key."""

    def __init__(self) -> None:
        self._keys: dict[LookupKey, int] = {}
        self._dimensions: dict[Dimension, int] = {}

    def count(self, alternative: Alternative) -> None:
        """Add the keys of one more alternative."""
        for key in _keys_of(alternative):
            self._keys[key] = self._keys.get(key, 0) + 1
            self._dimensions[key.dimension] = self._dimensions.get(key.dimension, 0) + 1

    def cost(self, access: Access) -> tuple[int, Dimension]:
        """Return a pair by which accesses are compared. The lowest pair is the best.

        The first item is the binary exponent of the estimated share of messages that have one of the keys. So similar
        shares have the same first item. The second item is the dimension of the first key. So if shares are similar,
        many alternatives choose a key of the same property.
        """
        share = sum(self._share(key) for key in access.keys)
        return frexp(share)[1], access.keys[0].dimension

    def _share(self, key: LookupKey) -> float:
        if key.dimension.kind == PRESENCE:
            return 1.0
        return self._keys.get(key, 1) / self._dimensions.get(key.dimension, 1)


def access_of(
    alternative: Alternative, nodes: Sequence[Node], popularity: Popularity, needs: Callable[[], list[Needs]]
) -> Access | None:
    """Return the access of the part of *alternative* with the rarest keys, or None if no part has keys.

    *nodes* are the nodes of the expression. *popularity* estimates how rare keys are. *needs* returns the
    :data:`Needs` of every node, and is called only for a part that is an AND, OR or NOT.
    """
    choices: list[Access | None] = []
    for part in alternative:
        if part.terms is not None:
            choices.append(_terms_access(part.terms, part.place))
        elif nodes[part.place].operator in ("and", "or", "not"):
            choices.append(needs()[part.place][0 if part.wanted else 1])
    return _best(choices, popularity.cost)


def presence_of(alternative: Alternative) -> Access | None:
    """Return an access whose only key is the presence of a property. Return None if no property must be present."""
    for part in alternative:
        if part.terms and part.terms[0].test != MISSING:
            return _presence(part.terms[0], part.place)
    return None


def _needs_of(nodes: Sequence[Node], dialect: Dialect, popularity: Popularity) -> list[Needs]:
    """Return the :data:`Needs` of every node, from the leaves up, without recursion. NOT swaps TRUE and FALSE."""
    needs: list[Needs] = []
    for place, node in enumerate(nodes):
        children = [needs[child] for child in node.children]
        trues, falses = [true for true, _ in children], [false for _, false in children]
        match node.operator:
            case "not":
                child = node.children[0]
                needs.append((_lift(falses[0], child, place), _lift(trues[0], child, place)))
            case "and":
                needs.append((_best(trues, popularity.cost), _union(falses, place, node.children)))
            case "or":
                needs.append((_union(trues, place, node.children), _best(falses, popularity.cost)))
            case operator if operator in OPERANDS:
                needs.append((None, None))
            case _:
                both = [terms_of(nodes, place, wanted, dialect) for wanted in (True, False)]
                true, false = (None if terms is None else _terms_access(terms, place) for terms in both)
                needs.append((true, false))
    return needs


def _keys_of(alternative: Alternative) -> Iterator[LookupKey]:
    for part in alternative:
        access = None if part.terms is None else _terms_access(part.terms, part.place)
        if access is not None and access.whole:
            yield from access.keys


def _terms_access(terms: Sequence[Term], place: int) -> Access | None:
    if not terms or terms[0].test == MISSING:
        return None
    term = terms[0]
    if len(terms) == 1 and term.test == ANY and len(term.values) <= KEYS_MAX:
        return Access(tuple(LookupKey(term.dimension, value) for value in term.values), place, True)
    return _presence(term, place)


def _presence(term: Term, place: int) -> Access:
    return Access((LookupKey(Dimension(PRESENCE, term.dimension.name), True),), place, False)


def _lift(access: Access | None, child: int, place: int) -> Access | None:
    """Return the access of a NOT (*place*), from the access of its operand (*child*)."""
    return access._replace(place=place) if access is not None and access.place == child else access


def _best(choices: Sequence[Access | None], cost: Callable[[Access], tuple[int, Dimension]]) -> Access | None:
    return min((access for access in choices if access is not None), key=cost, default=None)


def _union(parts: Sequence[Access | None], place: int, children: Sequence[int]) -> Access | None:
    """Return the access of a node that needs one of its children to hold; None if a child has no keys.

    In rocketmq a child that fails hides the children after it. So if a child may fail, one of the keys is not enough.
    """
    keys: dict[LookupKey, None] = {}
    whole = True
    for part, child in zip(parts, children, strict=True):
        if part is None:
            return None
        keys.update(dict.fromkeys(part.keys))
        whole = whole and part.whole and part.place == child
        whole = whole and all(key.dimension.kind not in _MAY_FAIL for key in part.keys)
    return Access(tuple(keys), place, whole) if len(keys) <= KEYS_MAX else None


COPIES_MAX = 1_024
"""The most owners, terms and values in all copies of an alternative: each lookup key has a copy.

A larger alternative is found by the presence of a property.
"""


class AccessPlan(NamedTuple):
    """How an index evaluates an alternative: by lookup keys (*access*), then by the *terms* that the keys do not imply.

    If *access* is None, the alternative is evaluated for every message. If *is_exact*, keys and terms decide the
    alternative. Otherwise the index also evaluates the full expression.
    """

    access: Access | None
    terms: tuple[Term, ...]
    is_exact: bool


def plans_of(
    expression: CompiledExpression, alternatives: Sequence[Alternative], owners: int, popularity: Popularity
) -> list[AccessPlan]:
    """Return the plan of each alternative of an expression.

    *owners* is the number of subscriptions with the expression. *popularity* estimates how rare keys are.
    """
    nodes = expression.nodes
    needs = cache(partial(_needs_of, nodes, expression.dialect, popularity))
    return [_plan(each, access_of(each, nodes, popularity, needs), owners) for each in alternatives]


def _plan(alternative: Alternative, access: Access | None, owners: int) -> AccessPlan:
    plan = _with(alternative, access)
    if plan.access is None or len(plan.access.keys) == 1:
        return plan
    size = owners + sum(1 + len(term.values) for term in plan.terms)
    return plan if len(plan.access.keys) * size <= COPIES_MAX else _with(alternative, presence_of(alternative))


def may_hide(expression: CompiledExpression) -> bool:
    """Return whether a part of *expression* may fail. Then the expression may fail although one alternative is TRUE."""
    return expression.dialect is Dialect.ROCKETMQ and failing_dimensions(expression.nodes) != frozenset()


def _with(alternative: Alternative, access: Access | None) -> AccessPlan:
    implied = access.place if access is not None and access.whole else None
    rest = [part for part in alternative if part.place != implied]
    terms = tuple(term for part in rest for term in part.terms or ())
    return AccessPlan(access, terms, all(part.terms is not None for part in rest))
