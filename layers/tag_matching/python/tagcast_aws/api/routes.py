"""The route tables of the functions, the service's own routes, and the API document."""

from __future__ import annotations

from functools import cache
from typing import Any

from tagcast.ports import World

from tagcast_aws.api import filters, hosts, members, messages, pulling, shadows, tail, topics
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.publishing import routes as publishing
from tagcast_aws.api.service import HEALTH
from tagcast_aws.api.subscriptions import routes as subscriptions


def answer_document(world: World, request: Request[None]) -> Answer:
    """Answer with the document of this API."""
    return Answer(200, description())


PUBLISH = publishing.ROUTES
"""The routes of the publish function. The function imports them from `publishing`, so it loads no other resources."""

PULL = (*pulling.ROUTES, *tail.ROUTES)
"""The routes of the pull function. Callers of these routes may wait for messages or events."""

MANAGE = (
    *topics.ROUTES,
    *messages.ROUTES,
    *filters.ROUTES,
    HEALTH,
    Route("GET", "/openapi.json", answer_document, "Describe this API", {200: dict[str, Any]}, is_public=True),
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
