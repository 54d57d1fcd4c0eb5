"""Filters in requests: validation, and tests of a filter on a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired

from tagcast.errors import Fault, InvalidFilterError, InvalidRequestError
from tagcast.filters.kinds import compile_filter
from tagcast.operating.explaining import test_filter
from tagcast.ports import World
from typing_extensions import TypedDict

from tagcast_aws.api.filter_kinds import AnyFilter
from tagcast_aws.api.http.answer_types import SchemaOf
from tagcast_aws.api.http.authorization import TokenScope
from tagcast_aws.api.http.body import Body
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.publishing.body import TestedMessage

FilterBody = Annotated[dict[str, Any], SchemaOf(AnyFilter)]
"""A filter in a request or an answer. The compiler of its kind validates it."""


class FilterTestBody(Body):
    """A filter, and a message to test it on."""

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
    """The verdict of a filter on a message, with its explanation."""

    verdict: Literal["matched", "not_matched", "error"]
    explanation: dict[str, Any]
    warnings: NotRequired[list[str]]


def filter_faults(value: object) -> list[Fault]:
    """Return the faults that the filter compiler finds in *value*.

    Pointers are relative to the body with the filter.
    """
    if not isinstance(value, dict):
        return []
    try:
        compile_filter(value)
    except InvalidFilterError as error:
        return [fault.under("/filter") for fault in error.faults]
    return []


def try_filter(world: World, request: Request[FilterTestBody]) -> Answer:
    """Test a filter on a message. Nothing is stored or sent, and no filter function is called."""
    try:
        verdict, explanation, warnings = test_filter(request.body.filter, request.body.message.draft())
    except InvalidFilterError as error:
        raise InvalidRequestError(tuple(fault.under("/filter") for fault in error.faults)) from None
    answer: dict[str, object] = {"verdict": verdict, "explanation": dict(explanation)}
    return Answer(200, answer | {"warnings": list(warnings)} if warnings else answer)


ROUTES = (
    Route(
        "POST",
        "/filters/test",
        try_filter,
        "Try a filter on a message",
        {200: FilterTestAnswer},
        body=FilterTestBody,
        scope=TokenScope.READ,
        names_no_topic=True,
    ),
)
