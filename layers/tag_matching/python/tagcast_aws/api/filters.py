"""Filters in requests: their schemas by kind, validation, and tests of a filter on a message.

The schemas describe the form only. The compiler of each kind checks everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field
from pydantic.types import StringConstraints
from tagcast.errors import Fault, InvalidFilterError, InvalidRequestError
from tagcast.filters.function_filter import TIMEOUT_DEFAULT_S, TIMEOUT_MAX_S
from tagcast.filters.kinds import compile_filter
from tagcast.filters.tag_filters import EXPRESSION_CHARACTERS_MAX, TAG_CHARACTERS_MAX
from tagcast.operating.explaining import test_filter
from tagcast.ports import World
from tagcast.resource_names import FUNCTION, FUNCTION_LENGTH_MAX
from typing_extensions import TypeAliasType, TypedDict

from tagcast_aws.api.http.answer_types import SchemaOf
from tagcast_aws.api.http.authorization import TokenScope
from tagcast_aws.api.http.body import Body
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.publishing.body import TestedMessage


class _Kind(TypedDict):
    """The base of the schemas of filters, which must also compile."""

    __pydantic_config__ = ConfigDict(extra="forbid", json_schema_extra={"format": "filter"})  # type: ignore[misc]


class TagsFilter(_Kind):
    """Matches messages with one of the tags; with all of them if `match` is `all`. No tags match everything."""

    kind: Literal["tags"]
    tags: list[Annotated[str, StringConstraints(min_length=1, max_length=TAG_CHARACTERS_MAX)]]
    match: NotRequired[Annotated[Literal["any", "all"], Field(json_schema_extra={"default": "any"})]]


class TagExpressionFilter(_Kind):
    """A tag expression of RocketMQ, such as `TagA || TagB`. A missing expression, or `*`, matches everything."""

    kind: Literal["tag_expression"]
    expression: NotRequired[Annotated[str, StringConstraints(max_length=EXPRESSION_CHARACTERS_MAX)] | None]


class RoutingKeyFilter(_Kind):
    """Matches messages whose routing key matches one of the patterns: `*` is one word, `#` any number of words."""

    kind: Literal["routing_key"]
    patterns: Annotated[list[Annotated[str, StringConstraints(min_length=1)]], Field(min_length=1)]


class Sql92Filter(_Kind):
    """An expression over the properties of a message, such as `price > 100 AND region = 'eu'`."""

    kind: Literal["sql92"]
    expression: Annotated[str, StringConstraints(min_length=1)]
    dialect: NotRequired[Annotated[Literal["strict", "rocketmq"], Field(json_schema_extra={"default": "strict"})]]


class EventPatternFilter(_Kind):
    """A pattern of EventBridge, or a filter policy of SNS. `scope` is the part of a message that the pattern tests."""

    kind: Literal["event_pattern"]
    pattern: Annotated[dict[str, Any], Field(min_length=1)]
    dialect: NotRequired[Annotated[Literal["eventbridge", "sns"], Field(json_schema_extra={"default": "eventbridge"})]]
    scope: NotRequired[
        Annotated[Literal["body", "properties", "envelope"], Field(json_schema_extra={"default": "body"})]
    ]


class FunctionFilter(_Kind):
    """A Lambda function that decides before the first push whether a message is delivered.

    If the function fails, `drop` discards the message, and `block` treats the failure as a failed attempt.
    """

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


FilterBody = Annotated[dict[str, Any], SchemaOf(AnyFilter)]
"""A filter in a request or an answer. The compiler of its kind validates it."""


class FilterTestBody(Body):
    """A message, and the filter to test on it. A missing or null filter matches everything."""

    filter: FilterBody | None = None
    message: TestedMessage

    @classmethod
    def cross_faults(cls, value: Mapping[str, object]) -> list[Fault]:
        """Return the faults of the filter, and faults between fields of the message."""
        message = value.get("message")
        crossed = TestedMessage.cross_faults(message) if isinstance(message, Mapping) else []
        return [fault.under("/message") for fault in crossed] + filter_faults(value.get("filter"))


class NewFilterBody(Body):
    """A filter; null matches everything."""

    filter: FilterBody | None

    @classmethod
    def cross_faults(cls, value: Mapping[str, object]) -> list[Fault]:
        """Return the faults of the filter."""
        return filter_faults(value.get("filter"))


class FilterTestAnswer(TypedDict):
    """The verdict of a filter on a message, with an explanation. The verdict is ``error`` if the filter failed."""

    verdict: Literal["matched", "not_matched", "error"]
    explanation: dict[str, Any]
    warnings: NotRequired[list[str]]


def filter_faults(value: object) -> list[Fault]:
    """Return the faults of a filter. Pointers are relative to the body that contains the filter."""
    if not isinstance(value, dict):
        return []
    try:
        compile_filter(value)
    except InvalidFilterError as error:
        return [fault.under("/filter") for fault in error.faults]
    return []


def try_filter(world: World, request: Request[FilterTestBody]) -> Answer:
    """Try a filter on a message.

    Nothing is stored or sent, and no filter function is called.
    """
    try:
        verdict, explanation, warnings = test_filter(request.body.filter, request.body.message.draft())
    except InvalidFilterError as error:
        raise InvalidRequestError(tuple(fault.under("/filter") for fault in error.faults)) from None
    answer: dict[str, object] = {"verdict": verdict, "explanation": dict(explanation)}
    return Answer(200, answer | {"warnings": list(warnings)} if warnings else answer)


ROUTES = (
    Route(
        "test_filter",
        "filters",
        "POST",
        "/filters/test",
        try_filter,
        {200: FilterTestAnswer},
        body=FilterTestBody,
        scope=TokenScope.READ,
        names_no_topic=True,
    ),
)
