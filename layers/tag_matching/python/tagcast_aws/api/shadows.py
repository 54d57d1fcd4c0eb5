"""Shadows: candidate filters that run alongside the active ones."""

from __future__ import annotations

from typing import Literal, NotRequired

from pydantic import Field
from tagcast.filters.kinds import compile_filter
from tagcast.instant import rfc3339
from tagcast.ports import World
from tagcast.registry.shadows import ShadowReport, delete_shadow, get_shadow, promote_shadow, put_shadow
from tagcast.rows.shadow import Comparison
from typing_extensions import TypedDict

from tagcast_aws.api.filters import FilterBody, NewFilterBody
from tagcast_aws.api.http.answer_types import Instant
from tagcast_aws.api.http.body import Body
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.subscriptions.routes import answer_with_lane
from tagcast_aws.api.subscriptions.settings import SubscriptionAnswer


class ShadowBody(NewFilterBody):
    """A candidate filter; null matches everything."""


class PromoteBody(Body):
    """The version that the shadow must have. If it is null or missing, any version is promoted."""

    shadow_version: int | None = Field(None, ge=1)


class ShadowCounts(TypedDict):
    """The numbers of messages that both filters, only one or neither matched.

    ``errors`` counts the messages on which the shadow failed. ``evaluated`` is the sum of all other fields.
    """

    evaluated: int
    both: int
    only_active: int
    only_shadow: int
    neither: int
    errors: int


class ShadowSample(TypedDict):
    """A message that only one of the two filters matches. ``way`` says which filter."""

    message_id: str
    way: Literal["only_active", "only_shadow"]


class ShadowAnswer(TypedDict):
    """A shadow, compared with version ``active_version`` of the active filter. Its counts may lag behind."""

    filter: FilterBody | None
    shadow_version: int
    active_version: int
    since: Instant
    counts: ShadowCounts
    samples: list[ShadowSample]
    warnings: NotRequired[list[str]]


def show_shadow(value: ShadowReport) -> ShadowAnswer:
    """Return the answer with a shadow, its counts and samples."""
    kept, counts = value.shadow.filter, value.counts
    answer: ShadowAnswer = {
        "filter": None if kept is None else dict(kept),
        "shadow_version": value.shadow.shadow_version,
        "active_version": value.active_version,
        "since": rfc3339(value.shadow.since),
        "counts": {
            "evaluated": sum(counts.values()),
            "both": counts[Comparison.BOTH],
            "only_active": counts[Comparison.ONLY_ACTIVE],
            "only_shadow": counts[Comparison.ONLY_SHADOW],
            "neither": counts[Comparison.NEITHER],
            "errors": counts[Comparison.ERRORS],
        },
        "samples": [
            {"message_id": message_id, "way": "only_active" if way is Comparison.ONLY_ACTIVE else "only_shadow"}
            for message_id, way in value.samples
        ],
    }
    warnings = compile_filter(kept).warnings
    if warnings:
        answer["warnings"] = list(warnings)
    return answer


def put(world: World, request: Request[ShadowBody]) -> Answer:
    """Run a candidate filter alongside the active one."""
    report, is_new = put_shadow(world, request.topic, request.subscription, request.body.filter)
    return Answer(201 if is_new else 200, show_shadow(report))


def answer_shadow(world: World, request: Request[None]) -> Answer:
    """Get the shadow, its counts and samples."""
    return Answer(200, show_shadow(get_shadow(world, request.topic, request.subscription)))


def delete(world: World, request: Request[None]) -> Answer:
    """Delete the shadow."""
    delete_shadow(world, request.topic, request.subscription)
    return Answer(204)


def promote(world: World, request: Request[PromoteBody]) -> Answer:
    """Make the shadow the active filter."""
    changed = promote_shadow(world, request.topic, request.subscription, request.body.shadow_version)
    return answer_with_lane(world, changed, 200)


_SHADOW = "/topics/{topic}/subscriptions/{subscription}/shadow"
_SHOWN, _PROMOTED = {200: ShadowAnswer}, {200: SubscriptionAnswer}

ROUTES = (
    Route("set_shadow", "filters", "PUT", _SHADOW, put, {201: ShadowAnswer, **_SHOWN}, body=ShadowBody),
    Route("get_shadow", "filters", "GET", _SHADOW, answer_shadow, _SHOWN),
    Route("delete_shadow", "filters", "DELETE", _SHADOW, delete, {204: None}),
    Route("promote_shadow", "filters", "POST", f"{_SHADOW}/promote", promote, _PROMOTED, body=PromoteBody),
)
