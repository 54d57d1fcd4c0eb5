"""Decides whether an event matches a pattern. Tests compare the index with this rule."""

from collections.abc import Sequence

from tagcast.errors import FilterEvaluationError
from tagcast.filters.event_pattern.arrays import Constraint, TooManyCombinationsError, are_consistent
from tagcast.filters.event_pattern.event import Element, Event
from tagcast.filters.event_pattern.pattern import Condition, Pattern

COMPARISONS_MAX = 100_000
"""The most comparisons of one evaluation. Each value that a condition reads counts as the condition's
:func:`tagcast.filters.event_pattern.leaves.weight_of_all`.
"""
STEPS_MAX = 2_000
"""The most combinations of array elements that are tried for one alternative."""
TRIED = 40
"""The weight of one array element, in comparisons, for each of several alternatives."""
TOO_MANY_STEPS = f"the arrays of the event allow more than {STEPS_MAX} combinations"
TOO_MUCH = "the event has so many values that it would take too long to compare them"


def matches(pattern: Pattern, event: Event) -> bool:
    """Return whether the event meets all conditions of one alternative, with array consistency.

    Raises FilterEvaluationError beyond :data:`COMPARISONS_MAX` or :data:`STEPS_MAX`. The result depends only on the
    event and the pattern.

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
    """Return whether evaluation needs more than :data:`COMPARISONS_MAX` comparisons."""
    tried = TRIED * branches_of(pattern) * event.objects
    if pattern.weight * event.most + tried <= COMPARISONS_MAX:
        return False
    values = event.values
    return sum(each.weight * len(values.get(each.path, ())) for each in pattern.conditions) + tried > COMPARISONS_MAX


def may_be_met(condition: Condition, event: Event) -> bool:
    """Return whether a condition is met when array consistency is ignored."""
    values = event.values.get(condition.path)
    if values is None:
        return condition.may_be_absent
    if condition.may_be_absent and condition.path in event.elements:
        return True
    return any(map(condition.holds, values))


def branches_of(pattern: Pattern) -> int:
    """Return the number of alternatives of a pattern, or 0 if there is only one alternative."""
    return len(pattern.alternatives) if len(pattern.alternatives) > 1 else 0


def hold_together(conditions: Sequence[Condition], event: Event) -> bool | None:
    """Return whether conditions that are each met on their own are also met with array consistency.

    Return None if the check needs more than :data:`STEPS_MAX` steps.
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
    """Return the distinct elements whose value meets a condition."""
    found = event.found.get(condition)
    if found is None:
        pairs = zip(event.values[condition.path], event.elements[condition.path], strict=True)
        found = list(dict.fromkeys(each for value, each in pairs if condition.holds(value)))
        event.found[condition] = found
    return found
