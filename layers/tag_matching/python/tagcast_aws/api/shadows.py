"""Routes of shadows: candidate filters that run beside the active ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field
from tagcast.errors import Fault
from tagcast.operating.lanes import lane_view
from tagcast.ports import World
from tagcast.registry.shadows import delete_shadow, get_shadow, promote_shadow, put_shadow

from tagcast_aws.api import answers, present
from tagcast_aws.api.http.body import Body
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.publishing.body import filter_faults


class ShadowBody(Body):
    """A candidate filter; null receives everything."""

    filter: dict[str, Any] | None

    @classmethod
    def cross_faults(cls, value: Mapping[str, object]) -> list[Fault]:
        """Add the faults of the filter."""
        return filter_faults(value.get("filter"))


class PromoteBody(Body):
    """Which shadow is meant; without it, whichever is present."""

    shadow_version: int | None = Field(None, ge=1)


def put(world: World, request: Request[ShadowBody]) -> Answer:
    """Begin a shadow; the same filter again leaves it as it is."""
    report, is_new = put_shadow(world, request.topic, request.subscription, request.body.filter)
    return Answer(201 if is_new else 200, present.shadow(report))


def one(world: World, request: Request[None]) -> Answer:
    """Answer with the shadow, its counts and samples."""
    return Answer(200, present.shadow(get_shadow(world, request.topic, request.subscription)))


def delete(world: World, request: Request[None]) -> Answer:
    """End the shadow."""
    delete_shadow(world, request.topic, request.subscription)
    return Answer(204)


def promote(world: World, request: Request[PromoteBody]) -> Answer:
    """Make the shadow the active filter."""
    changed = promote_shadow(world, request.topic, request.subscription, request.body.shadow_version)
    answer = present.subscription(changed, lane_view(world, changed))
    return Answer(200, answer, {"ETag": f'"{changed.version}"'})


_SHADOW = "/topics/{topic}/subscriptions/{subscription}/shadow"

ROUTES = (
    Route(
        "PUT",
        _SHADOW,
        put,
        "Run a candidate filter beside the active one",
        {201: answers.ShadowAnswer, 200: answers.ShadowAnswer},
        body=ShadowBody,
    ),
    Route("GET", _SHADOW, one, "Look at the shadow, its counts and samples", {200: answers.ShadowAnswer}),
    Route("DELETE", _SHADOW, delete, "End the shadow", {204: None}),
    Route(
        "POST",
        _SHADOW + "/promote",
        promote,
        "Make the shadow the active filter",
        {200: answers.SubscriptionAnswer},
        body=PromoteBody,
    ),
)
