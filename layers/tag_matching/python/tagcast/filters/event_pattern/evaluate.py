"""Decides whether an event matches a pattern. Tests compare the index with this rule."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tagcast.errors import FilterEvaluationError
from tagcast.filters.event_pattern.event import Element, Event
from tagcast.filters.event_pattern.pattern import Condition, Pattern

Chosen = Mapping[int, int]
"""The choice of one element in some arrays: array number to index."""


class Constraint(NamedTuple):
    """The array elements with which one condition is met. An element of None stands for a value outside arrays.

    *met* has the elements with a value that meets the condition. *there* is None unless an absent path also meets the
    condition. In this case *there* has all elements with the path, and the condition is also met if none is chosen.
    """

    met: Sequence[Element | None]
    there: Sequence[Element | None] | None


class _Node:
    """A node of a trie: child nodes by array and index. *ends*: the path of an element ends at this node."""

    __slots__ = ("arrays", "ends")

    def __init__(self) -> None:
        self.arrays: dict[int, dict[int, _Node]] = {}
        self.ends = False


class TooManyCombinationsError(Exception):
    """The arrays of an event have more combinations of elements than may be tried."""


def are_consistent(wanted: Sequence[Constraint], steps_max: int) -> bool:
    """Return whether a choice of one element in each array meets all *wanted* conditions.

    Elements are chosen for one condition after the other. As in EventBridge, a path counts as absent if the elements
    chosen so far do not have this path. If several choices make no difference to later conditions, only one of them is
    tried. Raises TooManyCombinationsError after *steps_max* choices.

    >>> first, second = Element(0, 0, None), Element(0, 1, None)
    >>> are_consistent([Constraint([first], None), Constraint([second], None)], 100)
    False
    >>> are_consistent([Constraint([first, second], None), Constraint([second], None)], 100)
    True
    """
    if (known := _in_one_array(wanted)) is not None:
        return known
    trees = [(_tree(each.met), None if each.there is None else _tree(each.there)) for each in wanted]
    later: list[set[int]] = [set()]
    for met, there in reversed(trees):
        later.append(later[-1] | _arrays(met) | (set() if there is None else _arrays(there)))
    later.reverse()
    seen: set[tuple[int, tuple[tuple[int, int], ...]]] = set()
    pending = [_options(*trees[0], {})]
    steps = 0
    while pending:
        chosen = next(pending[-1], None)
        if chosen is None:
            pending.pop()
            continue
        place = len(pending)
        if place == len(trees):
            return True
        steps += 1
        if steps > steps_max:
            raise TooManyCombinationsError
        matters = later[place]
        state = place, tuple(choice for choice in chosen.items() if choice[0] in matters)
        if state not in seen:
            seen.add(state)
            pending.append(_options(*trees[place], chosen))
    return False


def _in_one_array(wanted: Sequence[Constraint]) -> bool | None:
    """Return whether one element meets all conditions, if this is simple to decide.

    Return None if the elements are not all in one outer array, or if a condition allows an absent path.
    """
    found = [element for each in wanted for element in each.met if element is not None]
    if any(each.there is not None for each in wanted) or not found:
        return None
    if any(element.parent is not None or element.array != found[0].array for element in found):
        return None
    indices = [
        {element.index for element in each.met if element is not None} for each in wanted if None not in each.met
    ]
    return not indices or bool(set.intersection(*indices))


def _tree(elements: Sequence[Element | None]) -> _Node:
    root = _Node()
    for element in elements:
        node = root
        for array, index in element.chain() if element is not None else ():
            node = node.arrays.setdefault(array, {}).setdefault(index, _Node())
        node.ends = True
    return root


def _arrays(root: _Node) -> set[int]:
    found: set[int] = set()
    pending = [root]
    while pending:
        for array, elements in pending.pop().arrays.items():
            found.add(array)
            pending.extend(elements.values())
    return found


def _options(met: _Node, there: _Node | None, chosen: Chosen) -> Iterator[Chosen]:
    """Yield the choices that extend *chosen* so that a condition is met."""
    if there is not None and next(_below(there, chosen), None) is None:
        yield chosen
    for more in _below(met, chosen):
        yield {**chosen, **dict(more)} if more else chosen


def _below(node: _Node, chosen: Chosen) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield the choices, in addition to *chosen*, that lead to a value at or below *node*."""
    if node.ends:
        yield ()
    for array, elements in node.arrays.items():
        index = chosen.get(array)
        if index is None:
            for new, child in elements.items():
                for more in _below(child, chosen):
                    yield ((array, new), *more)
        elif index in elements:
            yield from _below(elements[index], chosen)


COMPARISONS_MAX = 100_000
"""The most comparisons of one evaluation.

Each value that a condition reads counts as many comparisons as the condition's weight
(:func:`tagcast.filters.event_pattern.leaves.weight_of_all`).
"""
STEPS_MAX = 2_000
"""The most combinations of array elements that are tried for one alternative."""
TRIED = 40
"""If a pattern has several alternatives, each object in an array counts as 40 comparisons for each alternative."""
TOO_MANY_STEPS = f"the arrays of the event allow more than {STEPS_MAX} combinations"
TOO_MUCH = "the event has so many values that it would take too long to compare them"


def matches(pattern: Pattern, event: Event) -> bool:
    """Return whether the event meets all conditions of one alternative of the pattern.

    The same element of an array must meet all conditions on this array. Raises FilterEvaluationError if the evaluation
    would exceed :data:`COMPARISONS_MAX` or :data:`STEPS_MAX`. The result depends only on the event and the pattern.

    >>> from tagcast.filters.event_pattern.pattern import read_pattern
    >>> event = Event.of({"a": [{"x": 1, "y": 1}, {"x": 2, "y": 2}]})
    >>> [matches(read_pattern({"a": {"x": [1], "y": [y]}}), event) for y in (1, 2)]
    [True, False]
    """
    if is_too_much(pattern, event):
        raise FilterEvaluationError(TOO_MUCH)
    met: dict[int, bool] = {}
    is_unknown = False
    for alternative in pattern.alternatives:
        for place in alternative:
            known = met.get(place)
            if known is None:
                known = met[place] = may_be_met(pattern.conditions[place], event)
            if not known:
                break
        else:
            together = hold_together([pattern.conditions[place] for place in alternative], event)
            if together:
                return True
            is_unknown |= together is None
    if is_unknown:
        raise FilterEvaluationError(TOO_MANY_STEPS)
    return False


def is_too_much(pattern: Pattern, event: Event) -> bool:
    """Return whether evaluating the pattern would need more than :data:`COMPARISONS_MAX` comparisons."""
    tried = TRIED * branches_of(pattern) * event.objects
    if pattern.weight * event.most + tried <= COMPARISONS_MAX:
        return False
    values = event.values
    return sum(each.weight * len(values.get(each.path, ())) for each in pattern.conditions) + tried > COMPARISONS_MAX


def may_be_met(condition: Condition, event: Event) -> bool:
    """Return False if the event certainly does not meet the condition.

    If True, :func:`hold_together` still has to check whether the same array elements meet the other conditions.
    """
    values = event.values.get(condition.path)
    if values is None:
        return condition.may_be_absent
    if condition.may_be_absent and condition.path in event.elements:
        return True
    return any(map(condition.holds, values))


def branches_of(pattern: Pattern) -> int:
    """Return the number of alternatives of a pattern, or 0 if it has only one.

    So only several alternatives add to the cost of a pattern (:data:`TRIED`).
    """
    return len(pattern.alternatives) if len(pattern.alternatives) > 1 else 0


def hold_together(conditions: Sequence[Condition], event: Event) -> bool | None:
    """Return whether the same array elements meet all *conditions*, or None if the search for them takes too long.

    The caller has checked each condition with :func:`may_be_met`. The search takes too long if it has to try more than
    :data:`STEPS_MAX` combinations of elements.
    """
    if not event.elements:
        return True
    inside = [each for each in conditions if each.path in event.elements]
    if not inside or (len(inside) == 1 and not inside[0].may_be_absent):
        return True
    wanted = [
        Constraint(find_elements(each, event), event.elements[each.path] if each.may_be_absent else None)
        for each in inside
    ]
    try:
        return are_consistent(wanted, STEPS_MAX)
    except TooManyCombinationsError:
        return None


def find_elements(condition: Condition, event: Event) -> list[Element | None]:
    """Return the distinct array elements with a value that meets the condition. None is a value outside arrays.

    *event* must have the condition's path inside an array. The result is cached in *event*.
    """
    found = event.found.get(condition)
    if found is None:
        pairs = zip(event.values[condition.path], event.elements[condition.path], strict=True)
        found = list(dict.fromkeys(each for value, each in pairs if condition.holds(value)))
        event.found[condition] = found
    return found
