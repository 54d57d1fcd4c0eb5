"""Constructors of filters (docs/filters.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from tagcast_client.settings import (
    FILTER_DEFAULTS,
    AnyFilter,
    EventPatternFilter,
    FunctionFilter,
    RoutingKeyFilter,
    SqlFilter,
    TagExpressionFilter,
    TagsFilter,
)

SqlDialect = Literal["strict", "rocketmq"]
PatternDialect = Literal["eventbridge", "sns"]
PatternScope = Literal["body", "properties", "envelope"]
OnError = Literal["drop", "block"]
_TRIMMED = "".join(map(chr, range(0x21)))
"""The characters that are removed around the tags of a tag expression. A no-break space is part of a tag."""


class Filter:
    """Constructors of filters, one for each kind. They return filters in the API's form."""

    @staticmethod
    def tags(*tags: str, match: Literal["any", "all"] = "any") -> TagsFilter:
        """Return the filter for messages with any of *tags*, or with all of them if *match* is ``all``.

        >>> Filter.tags("a", "b"), Filter.tags("a", "b", match="all")["match"]
        ({'kind': 'tags', 'tags': ['a', 'b']}, 'all')
        """
        found: TagsFilter = {"kind": "tags", "tags": list(tags)}
        return {**found, "match": "all"} if match == "all" else found

    @staticmethod
    def tag_expression(expression: str) -> TagExpressionFilter:
        """Return the filter for a tag expression of RocketMQ: ``TagA || TagB``, or ``*`` for everything."""
        return {"kind": "tag_expression", "expression": expression}

    @staticmethod
    def routing_key(*patterns: str) -> RoutingKeyFilter:
        """Return the filter for routing keys that match one of *patterns*, such as ``order.*.eu`` or ``audit.#``."""
        return {"kind": "routing_key", "patterns": list(patterns)}

    @staticmethod
    def sql(expression: str, *, dialect: SqlDialect = "strict") -> SqlFilter:
        """Return the filter for an SQL92 expression over properties. The dialect `rocketmq` has RocketMQ's semantics.

        >>> Filter.sql("price > 100")
        {'kind': 'sql92', 'expression': 'price > 100', 'dialect': 'strict'}
        """
        return {"kind": "sql92", "expression": expression, "dialect": dialect}

    @staticmethod
    def pattern(
        pattern: Mapping[str, Any], *, dialect: PatternDialect = "eventbridge", scope: PatternScope = "body"
    ) -> EventPatternFilter:
        """Return the filter for an event pattern of EventBridge or a filter policy of SNS, as the *dialect* says.

        *scope* is the part of a message that the pattern tests: ``body``, ``properties`` or ``envelope``.
        """
        return {"kind": "event_pattern", "pattern": dict(pattern), "dialect": dialect, "scope": scope}

    @staticmethod
    def function(function: str, *, on_error: OnError = "drop", timeout_seconds: int = 3) -> FunctionFilter:
        """Return the filter that asks a Lambda *function* (its name or ARN) for verdicts.

        The function must answer within *timeout_seconds*. After an error, messages are discarded if *on_error* is
        `drop`. With `block` the error counts as a failed attempt.
        """
        return {"kind": "function", "function": function, "on_error": on_error, "timeout_seconds": timeout_seconds}

    @staticmethod
    def from_json(described: Mapping[str, Any] | None) -> AnyFilter | None:
        """Return a filter read from JSON, e.g. from a settings file; None matches everything. The API validates it."""
        return cast("AnyFilter | None", described)


def normal_form(filter: AnyFilter | None) -> dict[str, Any] | None:
    """Return *filter* as the API shows it: with its defaults, and without blanks and repetitions.

    >>> normal_form({"kind": "tags", "tags": ["b", "a", "b"]})
    {'match': 'any', 'kind': 'tags', 'tags': ['b', 'a']}
    >>> normal_form({"kind": "tag_expression", "expression": " a||b || a"})
    {'kind': 'tag_expression', 'expression': 'a || b'}
    """
    found = with_defaults(filter)
    if found is None:
        return None
    match found:
        case {"kind": "tags", "tags": [*tags]}:
            found["tags"] = _distinct(tags)
            if len(found["tags"]) < 2:  # "all" of one tag equals "any".
                found["match"] = "any"
        case {"kind": "routing_key", "patterns": [*patterns]}:
            found["patterns"] = _distinct(patterns)
        case {"kind": "tag_expression"}:
            parts = (part.strip(_TRIMMED) for part in str(found.get("expression") or "*").split("||"))
            found["expression"] = " || ".join(dict.fromkeys(part for part in parts if part))
    return found


def _distinct(items: list[Any]) -> list[Any]:
    """Return *items* without repetitions. The API refuses items that are not text."""
    return [item for place, item in enumerate(items) if item not in items[:place]]


def with_defaults(filter: AnyFilter | None) -> dict[str, Any] | None:
    """Return *filter* with its defaults written out. None, which matches everything, stays None.

    >>> with_defaults({"kind": "sql92", "expression": "a = 1"})
    {'dialect': 'strict', 'kind': 'sql92', 'expression': 'a = 1'}
    """
    if filter is None:
        return None
    return {**FILTER_DEFAULTS.get(filter.get("kind", ""), {}), **cast("Mapping[str, Any]", filter)}
