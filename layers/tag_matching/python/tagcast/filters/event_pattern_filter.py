"""The filter kind ``event_pattern``: an EventBridge pattern, or an SNS filter policy within the limits of SNS."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from typing import TypeVar

from tagcast.errors import Fault, FaultCode, FilterEvaluationError, InvalidFilterError
from tagcast.filters.compiled import CompiledFilter, FilterInput, FilterValue, pointer_part, unknown_keys
from tagcast.filters.event_pattern.evaluate import matches
from tagcast.filters.event_pattern.event import Event
from tagcast.filters.event_pattern.explain import explain
from tagcast.filters.event_pattern.leaves import AnythingBut, Equals, Leaf, Numeric
from tagcast.filters.event_pattern.pattern import OR, Pattern, PatternError, read_pattern
from tagcast.filters.event_pattern.scopes import BODY_UNKNOWN, PatternScope, event_of
from tagcast.filters.explanation import Explanation

SNS_OPERATORS = frozenset(
    (
        "prefix",
        "suffix",
        "equals-ignore-case",
        "wildcard",
        "numeric",
        "cidr",
        "exists",
        "anything-but",
        "anything-but prefix",
        "anything-but wildcard",
    )
)
SNS_KEYS_MAX = 5
SNS_COMBINATIONS_MAX = 150
SNS_NUMBER_MAX = 1_000_000_000
SNS_DECIMALS_MAX = 5


def sns_faults(pattern: Pattern, written: Mapping[str, object], *, in_attributes: bool) -> list[Fault]:
    """Return the faults of an event pattern under the additional rules of SNS. Pointers are relative to the pattern.

    *written* is the JSON of the pattern. SNS limits the product of the lengths of all lists. A list inside *n* objects
    counts with *n* times its length. If *in_attributes*, the pattern reads message attributes, and nested keys are a
    fault.
    """
    faults = [Fault(detail, pointer, FaultCode.TOO_LARGE) for pointer, detail in _number_faults(written, "")]
    keys = dict.fromkeys(_keys(written, pattern.or_is_a_field))
    if len(keys) > SNS_KEYS_MAX:
        faults.append(Fault(f"SNS allows at most {SNS_KEYS_MAX} keys", "", FaultCode.TOO_LARGE))
    if in_attributes and any(condition.level > 1 for condition in pattern.conditions):
        faults.append(Fault("SNS does not allow nested keys for attributes", "", FaultCode.CONFLICT))
    sizes = [condition.count * condition.level for condition in pattern.conditions]
    if sum(prod(sizes[place] for place in alternative) for alternative in pattern.alternatives) > SNS_COMBINATIONS_MAX:
        faults.append(
            Fault(f"SNS allows at most {SNS_COMBINATIONS_MAX} combinations of values", "", FaultCode.TOO_LARGE)
        )
    return faults


def _keys(members: Mapping[str, object], or_is_a_field: bool) -> Iterator[str]:
    for name, value in members.items():
        if name == OR and isinstance(value, list) and not or_is_a_field:
            for each in value:
                if isinstance(each, Mapping):
                    yield from _keys(each, or_is_a_field)
        else:
            yield name


def _number_faults(value: object, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _number_faults(each, f"{pointer}/{pointer_part(name)}")
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from _number_faults(each, f"{pointer}/{place}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) > SNS_NUMBER_MAX:
            yield pointer, f"SNS allows numbers from -{SNS_NUMBER_MAX} to {SNS_NUMBER_MAX}"
        elif round(value, SNS_DECIMALS_MAX) != value:
            yield pointer, f"SNS allows numbers with at most {SNS_DECIMALS_MAX} digits after the point"


_Word = TypeVar("_Word", bound=StrEnum)
_OR_IS_A_FIELD = "$or is read as a field name here; as alternatives it must be a list of two or more objects"
_ARE_TEXTS = 'properties are texts in the dialect eventbridge; write numbers as "7", or use the dialect sns'


class PatternDialect(StrEnum):
    """The service whose rules a pattern follows."""

    EVENTBRIDGE = "eventbridge"
    SNS = "sns"


@dataclass(frozen=True, slots=True)
class EventPatternFilter(CompiledFilter):
    """A filter that matches if one part of the message (*scope*) meets the pattern. *written* is the pattern's JSON."""

    kind = "event_pattern"
    pattern: Pattern
    dialect: PatternDialect
    scope: PatternScope
    written: Mapping[str, object] = field(repr=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings about the pattern, at most two.

        One warns if ``$or`` is read as a field name. The other warns if a comparison never matches a property, because
        the dialect eventbridge reads properties as texts.
        """
        found = [_OR_IS_A_FIELD] if self.pattern.or_is_a_field else []
        if self.scope is PatternScope.PROPERTIES and self.dialect is PatternDialect.EVENTBRIDGE:
            leaves = (leaf for condition in self.pattern.conditions for leaf in condition.leaves)
            if not all(map(_is_about_texts, leaves)):
                found.append(_ARE_TEXTS)
        return tuple(found)

    @property
    def reads_body(self) -> bool:
        """Whether a verdict needs the body."""
        return self.scope is not PatternScope.PROPERTIES

    def event_of(self, message: FilterInput) -> Event | str:
        """Return the event that the pattern reads from *message*. If there is none, return a text with the reason."""
        return event_of(message, self.scope, are_attributes=self.dialect is PatternDialect.SNS)

    def evaluate(self, message: FilterInput) -> bool:
        """Return whether the pattern matches. A body that is not a JSON object does not match.

        Raises FilterEvaluationError if the body is deleted, or if the evaluation would take too long.
        """
        event = self.event_of(message)
        if event == BODY_UNKNOWN:
            raise FilterEvaluationError(BODY_UNKNOWN)
        return not isinstance(event, str) and matches(self.pattern, event)

    def explain(self, message: FilterInput) -> Explanation:
        """Return a tree of the pattern. Each path has a part with its comparisons and the message's values."""
        title = f"event pattern ({self.dialect}, {self.scope})"
        event = self.event_of(message)
        if isinstance(event, str):
            return Explanation(title, "error" if event == BODY_UNKNOWN else False, note=event)
        return explain(self.pattern, event, title)

    def as_json(self) -> dict[str, object]:
        """Return the pattern as written, with dialect and scope."""
        return {
            "kind": self.kind,
            "pattern": dict(self.written),
            "dialect": self.dialect.value,
            "scope": self.scope.value,
        }


def _is_about_texts(leaf: Leaf) -> bool:
    match leaf:
        case Equals(token) | AnythingBut((Equals(token), *_)):
            return isinstance(token, str)
        case _:
            return not isinstance(leaf, Numeric)


def compile_event_pattern(value: FilterValue) -> EventPatternFilter:
    """Compile ``{"kind": "event_pattern", "pattern": {...}, "dialect": ..., "scope": ...}``.

    The defaults are the dialect ``eventbridge`` and the scope ``body``. Raises InvalidFilterError with all faults.

    >>> compile_event_pattern({"kind": "event_pattern", "pattern": {"a": [1]}}).scope
    <PatternScope.BODY: 'body'>
    >>> compile_event_pattern({"kind": "event_pattern", "pattern": {"a": 1}})
    Traceback (most recent call last):
        ...
    tagcast.errors.InvalidFilterError: /pattern/a: must be an object or a list of values
    """
    faults = unknown_keys(value, frozenset({"kind", "pattern", "dialect", "scope"}))
    dialect = _word(value, "dialect", PatternDialect.EVENTBRIDGE, faults)
    scope = _word(value, "scope", PatternScope.BODY, faults)
    is_sns = dialect is PatternDialect.SNS
    if is_sns and scope is PatternScope.ENVELOPE:
        faults.append(Fault('must be "body" or "properties" with the dialect "sns"', "/scope", FaultCode.CONFLICT))
    written = value.get("pattern")
    pattern: Pattern | None = None
    try:
        pattern = read_pattern(written, SNS_OPERATORS if is_sns else None)
    except PatternError as error:
        faults.extend(fault.under("/pattern") for fault in error.faults)
    if pattern is not None and is_sns and isinstance(written, Mapping):
        refused = sns_faults(pattern, written, in_attributes=scope is PatternScope.PROPERTIES)
        faults.extend(fault.under("/pattern") for fault in refused)
    if faults or pattern is None:
        raise InvalidFilterError(tuple(faults))
    assert isinstance(written, Mapping)
    return EventPatternFilter(pattern, dialect, scope, written)


def _word(value: FilterValue, key: str, default: _Word, faults: list[Fault]) -> _Word:
    given = value.get(key, default.value)
    known = type(default)
    if isinstance(given, str) and given in known._value2member_map_:
        return known(given)
    faults.append(Fault("must be " + " or ".join(f'"{word}"' for word in known), f"/{key}", FaultCode.NOT_ALLOWED))
    return default
