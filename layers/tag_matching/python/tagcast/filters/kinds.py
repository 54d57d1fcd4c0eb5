"""The registry of filter kinds: from the JSON form to a compiled filter.

A new kind also concerns the index, jobs, API and client (.github/CONTRIBUTING.md, A new filter kind). The first SQL92
filter or event pattern imports the modules of its language, which takes about 80 ms.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tagcast.errors import Fault, FaultCode, InvalidFilterError
from tagcast.filters.compiled import CompiledFilter, FilterInput, FilterValue
from tagcast.filters.explanation import Explanation
from tagcast.filters.function_filter import compile_function
from tagcast.filters.routing_key_filter import compile_routing_key
from tagcast.filters.tag_filters import compile_tag_expression, compile_tags


@dataclass(frozen=True, slots=True)
class EverythingFilter(CompiledFilter):
    """The filter of a subscription that has no filter (``null``). It matches every message."""

    kind = "everything"

    def evaluate(self, message: FilterInput) -> bool:
        """Return ``True``."""
        return True

    def explain(self, message: FilterInput) -> Explanation:
        """Return a single node with the value TRUE."""
        return Explanation("everything", True, note="the subscription has no filter")

    def as_json(self) -> None:
        """Return ``None``, the JSON form of no filter."""


def _sql92(value: FilterValue) -> CompiledFilter:
    from tagcast.filters.sql92_filter import compile_sql92_filter

    return compile_sql92_filter(value)


def _event_pattern(value: FilterValue) -> CompiledFilter:
    from tagcast.filters.event_pattern_filter import compile_event_pattern

    return compile_event_pattern(value)


_COMPILERS: Mapping[str, Callable[[FilterValue], CompiledFilter]] = {
    "tags": compile_tags,
    "tag_expression": compile_tag_expression,
    "routing_key": compile_routing_key,
    "sql92": _sql92,
    "event_pattern": _event_pattern,
    "function": compile_function,
}

KINDS = tuple(_COMPILERS)
"""The names of the filter kinds."""


def compile_filter(value: FilterValue | None) -> CompiledFilter:
    """Validate and compile the JSON form of a filter. ``None`` matches everything.

    Raises :class:`tagcast.errors.InvalidFilterError` with every fault. A fault's pointer is relative to *value*. A
    syntax error raises the subclass :class:`tagcast.errors.FilterSyntaxError`, with line and column.

    >>> compile_filter({"kind": "tags", "tags": ["apple"]}).kind, compile_filter(None).kind
    ('tags', 'everything')
    >>> compile_filter({"kind": "tags", "tags": ["x" * 65]})
    Traceback (most recent call last):
        ...
    tagcast.errors.InvalidFilterError: /tags/0: a tag must have at most 64 characters
    """
    if value is None:
        return EverythingFilter()
    if not isinstance(value, Mapping):
        raise InvalidFilterError((Fault("must be an object or null", "", FaultCode.WRONG_TYPE),))
    kind = value.get("kind")
    compiler = _COMPILERS.get(kind) if isinstance(kind, str) else None
    if compiler is None:
        code = FaultCode.REQUIRED if kind is None else FaultCode.NOT_ALLOWED
        raise InvalidFilterError((Fault(f"must be one of {', '.join(_COMPILERS)}", "/kind", code),))
    return compiler(value)


def canonical(value: FilterValue | None) -> dict[str, object] | None:
    """Return the normal JSON form of a filter, or None for no filter.

    The form writes all defaults except ``"match": "any"``. Tags and routing-key patterns have no duplicates. Two
    filters with the same normal form match the same messages. Raises the errors of :func:`compile_filter`.

    >>> canonical({"kind": "tag_expression", "expression": None})
    {'kind': 'tag_expression', 'expression': '*'}
    """
    return compile_filter(value).as_json()
