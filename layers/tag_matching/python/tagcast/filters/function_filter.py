"""The filter kind ``function``: a Lambda function of the subscriber decides about each delivery."""

from dataclasses import dataclass
from typing import TypeGuard

from tagcast.errors import Fault, FaultCode, InvalidFilterError
from tagcast.filters.compiled import CompiledFilter, FilterInput, FilterValue, unknown_keys
from tagcast.filters.explanation import Explanation
from tagcast.model import Subscription
from tagcast.resource_names import function_named

TIMEOUT_DEFAULT_S = 3
TIMEOUT_MAX_S = 10
REPLACED_MS = 10_000
"""Milliseconds for which a publisher may still use a function after its replacement, even if clocks differ."""
FILTER_ERROR = "filter_error"
"""The outcome of a delivery for which the filter function returned no verdict."""
_ON_ERROR = ("drop", "block")


@dataclass(frozen=True, slots=True)
class FunctionFilter(CompiledFilter):
    """A filter that matches every published message. ``fan_out`` later invokes the Lambda function for the verdict.

    *function* is the name or ARN of the Lambda function. If an invocation fails, *on_error* ``drop`` discards the
    messages, and ``block`` counts a failed attempt. *timeout_s* is the timeout of an invocation in seconds.
    """

    kind = "function"
    function: str
    on_error: str
    timeout_s: int

    def evaluate(self, message: FilterInput) -> bool:
        """Return ``True``, because the function is not invoked while a message is accepted."""
        return True

    def explain(self, message: FilterInput) -> Explanation:
        """Return one node, which says that the function decides later."""
        note = "matched; the function decides before the first push"
        return Explanation(f"function {self.function}", True, note=note)

    def as_json(self) -> dict[str, object]:
        """Return all settings, including the defaults."""
        return {
            "kind": self.kind,
            "function": self.function,
            "on_error": self.on_error,
            "timeout_seconds": self.timeout_s,
        }


def is_function(filter: FilterValue | None) -> TypeGuard[FilterValue]:
    """Return whether a filter in its JSON form is of the kind ``function``. Return False for None (no filter)."""
    return filter is not None and filter.get("kind") == "function"


def function_of(subscription: Subscription) -> FunctionFilter | None:
    """Return the filter of *subscription* if its kind is ``function``, else None."""
    value = subscription.settings.filter
    return compile_function(value) if is_function(value) else None


def is_unjudged(subscription: Subscription, accepted_at: int) -> bool:
    """Return whether a message accepted at *accepted_at* (milliseconds) may lack a verdict of a filter function.

    The result is True if the filter is a function. It is also True if a function was replaced later than
    :data:`REPLACED_MS` before *accepted_at*, because publishers may use a replaced filter for that long.
    """
    until = subscription.function_until
    return is_function(subscription.settings.filter) or (until is not None and accepted_at <= until + REPLACED_MS)


def judging_s(subscription: Subscription) -> int:
    """Return the timeout of the filter function in seconds, or 0 for another kind of filter."""
    function = function_of(subscription)
    return 0 if function is None else function.timeout_s


def compile_function(value: FilterValue) -> FunctionFilter:
    """Compile ``{"kind": "function", "function": name or ARN, "on_error": "drop" | "block", "timeout_seconds": 1-10}``.

    Raises InvalidFilterError with all faults.

    >>> compile_function({"kind": "function", "function": "rate"}).as_json()["timeout_seconds"]
    3
    """
    faults = unknown_keys(value, frozenset({"kind", "function", "on_error", "timeout_seconds"}))
    function = value.get("function")
    if not isinstance(function, str) or function_named(function) is None:
        code = FaultCode.REQUIRED if function is None else FaultCode.WRONG_FORMAT
        faults.append(Fault("must be the name or the ARN of a Lambda function", "/function", code))
    on_error = value.get("on_error", _ON_ERROR[0])
    if not isinstance(on_error, str) or on_error not in _ON_ERROR:
        faults.append(Fault('must be "drop" or "block"', "/on_error", FaultCode.NOT_ALLOWED))
    timeout = value.get("timeout_seconds", TIMEOUT_DEFAULT_S)
    if isinstance(timeout, bool) or not isinstance(timeout, int) or not 1 <= timeout <= TIMEOUT_MAX_S:
        detail = f"must be a whole number from 1 to {TIMEOUT_MAX_S}"
        faults.append(Fault(detail, "/timeout_seconds", FaultCode.NOT_ALLOWED))
    if faults:
        raise InvalidFilterError(tuple(faults))
    assert isinstance(timeout, int)
    return FunctionFilter(str(function), str(on_error), timeout)
