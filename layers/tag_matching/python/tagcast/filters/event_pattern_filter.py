"""The filter kind ``event_pattern``: an EventBridge rule or an SNS filter policy over JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from tagcast.errors import Fault, FaultCode, FilterEvaluationError, InvalidFilterError
from tagcast.filters.compiled import FilterInput, FilterValue, unknown_keys
from tagcast.filters.event_pattern.evaluate import matches
from tagcast.filters.event_pattern.event import Event
from tagcast.filters.event_pattern.explain import explain
from tagcast.filters.event_pattern.pattern import Pattern, PatternError, read_pattern
from tagcast.filters.event_pattern.scopes import BODY_UNKNOWN, PatternScope, event_of
from tagcast.filters.event_pattern.sns import SNS_OPERATORS, sns_faults
from tagcast.filters.explanation import Explanation

_Word = TypeVar("_Word", bound=StrEnum)
_OR_IS_A_FIELD = "$or is read as a field name here; as alternatives it must be a list of two or more objects"


class PatternDialect(StrEnum):
    """The service whose rules a pattern follows."""

    EVENTBRIDGE = "eventbridge"
    SNS = "sns"


@dataclass(frozen=True, slots=True)
class EventPatternFilter:
    """Matches if the part of the message in *scope* meets the pattern."""

    pattern: Pattern
    dialect: PatternDialect
    scope: PatternScope
    written: Mapping[str, object] = field(repr=False)
    kind: str = "event_pattern"

    @property
    def warnings(self) -> tuple[str, ...]:
        """One warning if a ``$or`` of the pattern is a field and not an operator."""
        return (_OR_IS_A_FIELD,) if self.pattern.or_is_a_field else ()

    @property
    def reads_body(self) -> bool:
        """Whether a verdict needs the body."""
        return self.scope is not PatternScope.PROPERTIES

    def event_of(self, message: FilterInput) -> Event | str:
        """Return the event that the pattern reads, or a reason why there is none."""
        return event_of(message, self.scope, are_attributes=self.dialect is PatternDialect.SNS)

    def evaluate(self, message: FilterInput) -> bool:
        """Evaluate the pattern (:func:`tagcast.filters.event_pattern.evaluate.matches`).

        A body that is no JSON object does not match.
        """
        event = self.event_of(message)
        if event == BODY_UNKNOWN:
            raise FilterEvaluationError(BODY_UNKNOWN)
        return not isinstance(event, str) and matches(self.pattern, event)

    def explain(self, message: FilterInput) -> Explanation:
        """Return a tree of the pattern: each path with its comparisons and the message's values."""
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


def compile_event_pattern(value: FilterValue) -> EventPatternFilter:
    """Validate ``{"kind": "event_pattern", "pattern": {...}, "dialect": ..., "scope": ...}``.

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
