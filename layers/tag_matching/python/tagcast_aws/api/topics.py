"""Topics: their settings in requests and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired

from tagcast.errors import NotFoundError
from tagcast.instant import rfc3339
from tagcast.model import Topic, TopicSettings
from tagcast.ports import World
from tagcast.registry.directory import read_topic
from tagcast.registry.topics import change_topic, delete_topic, list_topics, put_topic, retained_count
from typing_extensions import TypedDict

from tagcast_aws.api.http.answer_types import Instant
from tagcast_aws.api.http.authorization import check_publishing
from tagcast_aws.api.http.body import Body
from tagcast_aws.api.http.declared import (
    answer_base,
    apply_patch,
    body_base,
    patch_base,
    settings_from_body,
    show_settings,
)
from tagcast_aws.api.http.paging import PAGING, encode_cursor, page
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route
from tagcast_aws.api.limits import NAME

if TYPE_CHECKING:
    _Settings = Body
    _Changes = Body

    class _Shown(TypedDict):
        pass
else:
    _Settings, _Changes, _Shown = body_base(TopicSettings), patch_base(TopicSettings), answer_base(TopicSettings)


class TopicBody(_Settings):
    """The settings of a topic; missing settings get their defaults."""

    def settings(self) -> TopicSettings:
        """Convert the body to the core's :class:`TopicSettings`."""
        return TopicSettings(**settings_from_body(TopicSettings, self))


class TopicPatch(_Changes):
    """A merge patch (RFC 7396) of a topic's settings: missing settings stay, null resets to the default."""

    def of(self, present: TopicSettings) -> TopicSettings:
        """Return the *present* settings with this patch applied."""
        body: TopicBody = TopicBody.model_validate(apply_patch(show_settings(present), self.named_fields()))
        return body.settings()


class TopicAnswer(_Shown):
    """A topic. ``subscriptions`` is the number of its subscriptions, and ``version`` is its ETag.

    Only a GET of one topic has ``retained_messages``, counted up to 10,000.
    """

    name: str
    subscriptions: int
    created_at: Instant
    updated_at: Instant
    version: int
    warnings: NotRequired[list[str]]
    retained_messages: NotRequired[int]


class TopicsAnswer(TypedDict):
    """One page of topics. ``next_cursor`` is null on the last page."""

    topics: list[TopicAnswer]
    next_cursor: str | None


def show_topic(value: Topic) -> TopicAnswer:
    """Return the answer with a topic."""
    return {
        "name": value.name,
        **show_settings(value.settings),  # type: ignore[typeddict-item]
        "subscriptions": value.subscription_count,
        "created_at": rfc3339(value.created_at),
        "updated_at": rfc3339(value.updated_at),
        "version": value.version,
    }


def _answer(world: World, value: Topic, status: int = 200, **more: int) -> Answer:
    answer, events_topic = show_topic(value), value.settings.events_topic
    if events_topic is not None and (lost := missing_receiver_warning(world, events_topic, "events")):
        answer["warnings"] = [lost]
    return Answer(status, {**answer, **more}, {"ETag": f'"{value.version}"'})


def missing_receiver_warning(world: World, topic: str, what: str) -> str | None:
    """Return a warning if *topic* does not exist or has no subscription; otherwise None.

    Messages to such a topic are lost, or lose their bodies. *what* names them in the warning, for example events.
    """
    try:
        found = read_topic(world, topic)
    except NotFoundError:
        return f"The topic {topic} for {what} does not exist. They are lost until you create it"
    if not found.subscription_count:
        return f"The topic {topic} for {what} has no subscription. Its messages keep no body until it has one"
    return None


def _wanted_version(world: World, request: Request[Any], *, may_create: bool = False) -> int | None:
    """Return the version that a conditional request requires; None without a condition."""
    return request.version("topic", lambda: read_topic(world, request.topic).version, may_create=may_create)


def put(world: World, request: Request[TopicBody]) -> Answer:
    """Create or replace a topic."""
    settings = request.body.settings()
    check_publishing(world, request.rights, request.topic, settings.events_topic, "events_topic")
    topic, is_new = put_topic(world, request.topic, settings, _wanted_version(world, request, may_create=True))
    return _answer(world, topic, 201 if is_new else 200)


def change(world: World, request: Request[TopicPatch]) -> Answer:
    """Update a topic."""
    check_publishing(
        world, request.rights, request.topic, request.body.named_fields().get("events_topic"), "events_topic"
    )
    wanted = _wanted_version(world, request)
    return _answer(world, change_topic(world, request.topic, request.body.of, wanted))


def answer_topic(world: World, request: Request[None]) -> Answer:
    """Get a topic."""
    return _answer(world, read_topic(world, request.topic), retained_messages=retained_count(world, request.topic))


def answer_topics(world: World, request: Request[None]) -> Answer:
    """List the topics."""
    found = list_topics(world, *request.page(NAME))
    return Answer(200, page("topics", [show_topic(item) for item in found.items], encode_cursor(found.cursor)))


def delete(world: World, request: Request[None]) -> Answer:
    """Delete a topic without subscriptions."""
    delete_topic(world, request.topic, _wanted_version(world, request))
    return Answer(204)


_ONE = "/topics/{topic}"
_SHOWN, _MADE = {200: TopicAnswer}, {201: TopicAnswer, 200: TopicAnswer}
_IF, _IF_ANY = ("If-Match",), ("If-Match", "If-None-Match")

ROUTES = (
    Route("list_topics", "topics", "GET", "/topics", answer_topics, {200: TopicsAnswer}, query=PAGING),
    Route("create_topic", "topics", "PUT", _ONE, put, _MADE, body=TopicBody, headers=_IF_ANY),
    Route("update_topic", "topics", "PATCH", _ONE, change, _SHOWN, body=TopicPatch, headers=_IF),
    Route("get_topic", "topics", "GET", _ONE, answer_topic, _SHOWN),
    Route("delete_topic", "topics", "DELETE", _ONE, delete, {204: None}, headers=_IF),
)
