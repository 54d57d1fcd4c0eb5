"""Explains a pattern's verdict. It shows the result of each comparison, and the array elements that meet it."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from tagcast.errors import FilterEvaluationError
from tagcast.filters.event_pattern.evaluate import TOO_MANY_STEPS, hold_together, matches, may_be_met
from tagcast.filters.event_pattern.event import Decimals, Element, Event, Raw, Value
from tagcast.filters.event_pattern.leaves import Absent, Equals, Leaf, read_value
from tagcast.filters.event_pattern.pattern import Condition, Pattern
from tagcast.filters.explanation import Explanation, shorten

ALTERNATIVES_SHOWN_MAX = 20
VALUES_SHOWN_MAX = 5
_TEXT_SHOWN_MAX = 64


def explain(pattern: Pattern, event: Event, title: str) -> Explanation:
    """Return a tree of the pattern's conditions, each with its comparisons and the values of the event.

    *title* is the text of the root. Each of several alternatives is a part of its own, and at most 20 are shown. If the
    evaluation takes too long, the root is an error without children.

    >>> from tagcast.filters.event_pattern.pattern import read_pattern
    >>> tree = explain(read_pattern({"a": ["x", {"prefix": "y"}]}), Event.of({"a": "z"}), "event pattern")
    >>> tree.children[0].text, tree.children[0].note, [leaf.text for leaf in tree.children[0].children]
    ('a', 'a is "z"', ['"x"', '{"prefix": "y"}'])
    """
    try:
        verdict = matches(pattern, event)
    except FilterEvaluationError as error:
        return Explanation(title, "error", note=error.message)
    shown = pattern.alternatives[:ALTERNATIVES_SHOWN_MAX]
    condition = cache(partial(_condition, event))  # Alternatives share conditions.
    if len(pattern.alternatives) == 1:
        part = _alternative(pattern, shown[0], event, title, condition)
        return Explanation(title, verdict, part.children, part.note)
    children = tuple(
        _alternative(pattern, each, event, f"alternative {n}", condition) for n, each in enumerate(shown, start=1)
    )
    hidden = len(pattern.alternatives) - len(shown)
    return Explanation(title, verdict, children, f"{hidden} more alternatives are not shown" if hidden else "")


def _alternative(
    pattern: Pattern, places: Sequence[int], event: Event, title: str, shown: Callable[[Condition, bool], Explanation]
) -> Explanation:
    conditions = [pattern.conditions[place] for place in places]
    first = next((each for each in conditions if each.path in event.elements), None)
    parts = tuple(shown(each, each is first) for each in conditions)
    if not all(part.value for part in parts):
        return Explanation(title, False, parts)
    together = hold_together(conditions, event)
    if together is None:
        return Explanation(title, "error", parts, TOO_MANY_STEPS)
    note = "" if together else "each condition is met, but not in the same array element"
    return Explanation(title, together, parts, note)


def _condition(event: Event, condition: Condition, is_first: bool) -> Explanation:
    values = event.values.get(condition.path)
    if values is None:
        note = f"the event has no {condition.path}"
    else:
        elements = event.elements.get(condition.path) or [None] * len(values)
        shown = [_format(value, element) for value, element in zip(values[:VALUES_SHOWN_MAX], elements, strict=False)]
        more = f" and {len(values) - len(shown)} more" if len(values) > len(shown) else ""
        note = f"{condition.path} is {', '.join(shown)}{more}"
    pairs = zip(condition.leaves, condition.forms, strict=True)
    places = _places_of(values or ())
    leaves = tuple(_leaf(leaf, written, condition, event, places, is_first=is_first) for leaf, written in pairs)
    is_met = any(leaf.value for leaf in leaves) if is_first else may_be_met(condition, event)
    return Explanation(condition.path, is_met, leaves, note)


def _places_of(values: Sequence[Value]) -> dict[Value, list[int]]:
    """Return the indices of each value in *values*, so that each of up to a thousand equalities needs only a lookup."""
    found: dict[Value, list[int]] = {}
    for place, value in enumerate(values):
        for token in (value.text, value.number) if type(value) is Decimals else (value,):
            found.setdefault(token, []).append(place)
    return found


def _leaf(
    leaf: Leaf,
    written: object,
    condition: Condition,
    event: Event,
    places: Mapping[Value, list[int]],
    *,
    is_first: bool,
) -> Explanation:
    text = json.dumps(written, ensure_ascii=False)
    values = event.values.get(condition.path, [])
    elements = event.elements.get(condition.path)
    if isinstance(leaf, Absent):
        if elements is None or is_first:
            return Explanation(text, not values)
        return Explanation(text, True, note="beside what is chosen for the paths before it")
    if isinstance(leaf, Equals):
        met = places.get(leaf.token, [])
    else:
        met = [place for place, value in enumerate(values) if leaf.holds(read_value(leaf, value))]
    note = ""
    if elements is not None:
        found = list(dict.fromkeys(_element(elements[place]) for place in met))
        note = f"met {', '.join(found[:VALUES_SHOWN_MAX])}" if found else "met in no element"
    return Explanation(text, bool(met), note=note)


def _element(element: Element | None) -> str:
    if element is None:
        return "outside of elements"
    return "in element " + ".".join(str(index) for _, index in element.chain())


def _format(value: Value, element: Element | None) -> str:
    match value:
        case Raw(text):
            shown = text
        case Decimals(text) | str(text):
            shown = json.dumps(text, ensure_ascii=False)
        case _:
            shown = str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    cut = shorten(shown, _TEXT_SHOWN_MAX)
    return cut if element is None else f"{cut} {_element(element)}"
