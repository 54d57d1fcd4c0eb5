"""The service's own routes: its name and version, and its health."""

from __future__ import annotations

from typing import Literal

from tagcast.ports import World
from typing_extensions import TypedDict

from tagcast_aws.api.http.answer_headers import API_VERSION
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.runtime.version import VERSION


class AboutAnswer(TypedDict):
    """The service and its version. *openapi* and *health* are relative to this address."""

    name: Literal["tagcast"]
    version: str
    api_version: str
    openapi: str
    health: str


class HealthAnswer(TypedDict):
    """The health of the service."""

    status: Literal["ok"]
    version: str


def answer_about(world: World, request: Request[None]) -> Answer:
    """Answer with the service and its version."""
    answer: AboutAnswer = {
        "name": "tagcast",
        "version": VERSION,
        "api_version": API_VERSION,
        "openapi": "openapi.json",
        "health": "health",
    }
    return Answer(200, answer)


def answer_health(world: World, request: Request[None]) -> Answer:
    """Answer that the service is healthy."""
    return Answer(200, {"status": "ok", "version": VERSION})


ROOT = (
    Route("GET", "/", answer_about, "Describe the service", {200: AboutAnswer}, is_public=True, names_no_topic=True),
)
"""The route at `/`. The function of the CMQ endpoint serves it, too, because both use this path."""
HEALTH = Route("GET", "/health", answer_health, "Get the health of the service", {200: HealthAnswer}, is_public=True)
