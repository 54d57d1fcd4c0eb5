"""What the service says of itself: what it is, and that it answers."""

from __future__ import annotations

from typing import Literal

from tagcast.ports import World
from typing_extensions import TypedDict

from tagcast_aws.api.http.answer_headers import API_VERSION
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.runtime.version import VERSION


class AboutAnswer(TypedDict):
    """What answers here, and where to read on: *openapi* and *health* are relative to this address."""

    name: Literal["tagcast"]
    version: str
    api_version: str
    openapi: str
    health: str


class HealthAnswer(TypedDict):
    """That the service answers."""

    status: Literal["ok"]
    version: str


def about(world: World, request: Request[None]) -> Answer:
    """Answer what this is."""
    answer: AboutAnswer = {
        "name": "tagcast",
        "version": VERSION,
        "api_version": API_VERSION,
        "openapi": "openapi.json",
        "health": "health",
    }
    return Answer(200, answer)


def health(world: World, request: Request[None]) -> Answer:
    """Answer that the service answers."""
    return Answer(200, {"status": "ok", "version": VERSION})


ROOT = (Route("GET", "/", about, "Describe the service", {200: AboutAnswer}, is_public=True, names_no_topic=True),)
"""What the function of the CMQ endpoint serves besides: both have the same path."""
HEALTH = Route("GET", "/health", health, "Get the health of the service", {200: HealthAnswer}, is_public=True)
