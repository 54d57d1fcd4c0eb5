"""The route tables of the functions, the service's own routes, and the API document."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from tagcast.ports import World
from typing_extensions import TypedDict

from tagcast_aws.api import filters, hosts, members, messages, pulling, shadows, tail, topics
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.publishing import routes as publishing
from tagcast_aws.api.subscriptions import routes as subscriptions
from tagcast_aws.runtime.version import VERSION


class HealthAnswer(TypedDict):
    """The health of the service."""

    status: Literal["ok"]
    version: str


def answer_health(world: World, request: Request[None]) -> Answer:
    """Get the health of the service."""
    return Answer(200, {"status": "ok", "version": VERSION})


def answer_document(world: World, request: Request[None]) -> Answer:
    """Describe this API."""
    return Answer(200, description())


PUBLISH = publishing.ROUTES
"""The routes of the publish function. The function imports them from `publishing`, so it loads no other resources."""

PULL = (*pulling.ROUTES, *tail.ROUTES)
"""The routes of the pull function. Callers of these routes may wait for messages or events."""

MANAGE = (
    *topics.ROUTES,
    *messages.ROUTES,
    *filters.ROUTES,
    Route("health", "service", "GET", "/health", answer_health, {200: HealthAnswer}, is_public=True),
    Route("get_openapi", "service", "GET", "/openapi.json", answer_document, {200: dict[str, Any]}, is_public=True),
    *subscriptions.ROUTES,
    *shadows.ROUTES,
    *members.ROUTES,
    *hosts.ROUTES,
)
"""The routes of the manage function: all routes except publishing, pulling and tails."""


@cache
def description() -> dict[str, Any]:
    """Return the OpenAPI document of all routes. The value is cached: do not change it."""
    # The document is rarely requested, and building it imports more than all routes.
    from tagcast_aws.api.http.openapi import openapi

    return openapi((*PUBLISH, *PULL, *MANAGE))
