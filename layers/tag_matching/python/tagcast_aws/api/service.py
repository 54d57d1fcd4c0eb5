"""The route of the service's health."""

from __future__ import annotations

from typing import Literal

from tagcast.ports import World
from typing_extensions import TypedDict

from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.runtime.version import VERSION


class HealthAnswer(TypedDict):
    """The health of the service."""

    status: Literal["ok"]
    version: str


def answer_health(world: World, request: Request[None]) -> Answer:
    """Answer that the service is healthy."""
    return Answer(200, {"status": "ok", "version": VERSION})


HEALTH = Route("GET", "/health", answer_health, "Get the health of the service", {200: HealthAnswer}, is_public=True)
