"""The JSON schemas of filters in the API document, one for each kind.

The schemas describe the form only. The compiler of each kind checks everything else.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field
from pydantic.types import StringConstraints
from tagcast.filters.function_filter import TIMEOUT_DEFAULT_S, TIMEOUT_MAX_S
from tagcast.filters.tag_filters import EXPRESSION_CHARACTERS_MAX, TAG_CHARACTERS_MAX
from tagcast.resource_names import FUNCTION, FUNCTION_LENGTH_MAX
from typing_extensions import TypeAliasType, TypedDict

_CHECKED = ConfigDict(extra="forbid", json_schema_extra={"format": "filter"})
"""The schema's note that a filter must also compile."""


class TagsFilter(TypedDict):
    """Matches messages that have one of the tags, or all of them. An empty list matches everything."""

    __pydantic_config__ = _CHECKED  # type: ignore[misc]

    kind: Literal["tags"]
    tags: list[Annotated[str, StringConstraints(min_length=1, max_length=TAG_CHARACTERS_MAX)]]
    match: NotRequired[Annotated[Literal["any", "all"], Field(json_schema_extra={"default": "any"})]]


class TagExpressionFilter(TypedDict):
    """A tag expression of RocketMQ, such as `TagA || TagB`. A missing expression, or `*`, matches everything."""

    __pydantic_config__ = _CHECKED  # type: ignore[misc]

    kind: Literal["tag_expression"]
    expression: NotRequired[Annotated[str, StringConstraints(max_length=EXPRESSION_CHARACTERS_MAX)] | None]


class RoutingKeyFilter(TypedDict):
    """Matches messages whose routing key matches one of the patterns: `*` is one word, `#` any number of words."""

    __pydantic_config__ = _CHECKED  # type: ignore[misc]

    kind: Literal["routing_key"]
    patterns: Annotated[list[Annotated[str, StringConstraints(min_length=1)]], Field(min_length=1)]


class Sql92Filter(TypedDict):
    """An expression over the properties of a message, such as `price > 100 AND region = 'eu'`."""

    __pydantic_config__ = _CHECKED  # type: ignore[misc]

    kind: Literal["sql92"]
    expression: Annotated[str, StringConstraints(min_length=1)]
    dialect: NotRequired[Annotated[Literal["strict", "rocketmq"], Field(json_schema_extra={"default": "strict"})]]


class EventPatternFilter(TypedDict):
    """A pattern of EventBridge, or a filter policy of SNS. `scope` names the part of a message to read."""

    __pydantic_config__ = _CHECKED  # type: ignore[misc]

    kind: Literal["event_pattern"]
    pattern: Annotated[dict[str, Any], Field(min_length=1)]
    dialect: NotRequired[Annotated[Literal["eventbridge", "sns"], Field(json_schema_extra={"default": "eventbridge"})]]
    scope: NotRequired[
        Annotated[Literal["body", "properties", "envelope"], Field(json_schema_extra={"default": "body"})]
    ]


class FunctionFilter(TypedDict):
    """A Lambda function that decides before the first attempt."""

    __pydantic_config__ = _CHECKED  # type: ignore[misc]

    kind: Literal["function"]
    function: Annotated[str, StringConstraints(pattern=f"^{FUNCTION}$", max_length=FUNCTION_LENGTH_MAX)]
    on_error: NotRequired[Annotated[Literal["drop", "block"], Field(json_schema_extra={"default": "drop"})]]
    timeout_seconds: NotRequired[
        Annotated[int, Field(ge=1, le=TIMEOUT_MAX_S, json_schema_extra={"default": TIMEOUT_DEFAULT_S})]
    ]


AnyFilter = TypeAliasType(
    "AnyFilter",
    Annotated[
        TagsFilter | TagExpressionFilter | RoutingKeyFilter | Sql92Filter | EventPatternFilter | FunctionFilter,
        Field(discriminator="kind"),
    ],
)
"""A filter of any kind."""
