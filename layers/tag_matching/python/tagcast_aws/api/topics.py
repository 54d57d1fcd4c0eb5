"""Topics: their settings, in and out."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, StringConstraints
from tagcast.errors import NotFoundError
from tagcast.instant import rfc3339
from tagcast.model import BODY_BYTES_DEFAULT, BODY_BYTES_MAX, RETENTION_S_MAX, RETENTION_S_MIN, Keep, Ordering, Topic
from tagcast.ports import World
from tagcast.registry.topics import change_topic, delete_topic, get_topic, list_topics, put_topic, retained_count
from typing_extensions import TypedDict

from tagcast_aws.api import limits
from tagcast_aws.api.http.answer_types import Instant
from tagcast_aws.api.http.authorization import check_publishing
from tagcast_aws.api.http.body import Body
from tagcast_aws.api.http.paging import PAGING, encode_cursor, page
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route

_Retention = Annotated[int, Field(ge=RETENTION_S_MIN, le=RETENTION_S_MAX)]
_BodyBytes = Annotated[int, Field(ge=1, le=BODY_BYTES_MAX)]
_Ordering = Literal["topic", "key", "none"]
_Keep = Literal["pending", "life"]
_EventsTopic = Annotated[str, StringConstraints(pattern=limits.NAME)]


class TopicBody(Body):
    """The settings of a topic; what is left out has its default."""

    retention_seconds: _Retention = RETENTION_S_MAX
    max_message_bytes: _BodyBytes = BODY_BYTES_DEFAULT
    ordering: _Ordering = Ordering.TOPIC.value
    keep: _Keep = Keep.PENDING.value
    events_topic: _EventsTopic | None = None

    def of(self, known: Topic) -> Topic:
        """Return the topic with these settings."""
        return replace(
            known,
            retention_s=self.retention_seconds,
            body_bytes_max=self.max_message_bytes,
            ordering=Ordering(self.ordering),
            keep=Keep(self.keep),
            events_topic=self.events_topic,
        )


class TopicPatch(Body):
    """A merge patch (RFC 7396) of the settings of a topic: what is left out stays, null stands for the default."""

    retention_seconds: _Retention | None = None
    max_message_bytes: _BodyBytes | None = None
    ordering: _Ordering | None = None
    keep: _Keep | None = None
    events_topic: _EventsTopic | None = None

    def of(self, known: Topic) -> Topic:
        """Return the topic with what this names."""
        named = {name: getattr(self, name) for name in self.model_fields_set}
        chosen = {name: value for name, value in (_settings(known) | named).items() if value is not None}
        return TopicBody.model_validate(chosen).of(known)


def _settings(value: Topic) -> dict[str, Any]:
    """Return the settings of a topic as a request that puts them writes them."""
    answer = shown(value)
    return {name: value for name, value in answer.items() if name in TopicBody.model_fields}


class TopicAnswer(TypedDict):
    """A topic; ``retained_messages`` where one topic is asked for. Its ``version`` is its ETag."""

    name: str
    retention_seconds: int
    max_message_bytes: int
    ordering: _Ordering
    subscriptions: int
    created_at: Instant
    updated_at: Instant
    version: int
    keep: NotRequired[_Keep]
    events_topic: NotRequired[str]
    warnings: NotRequired[list[str]]
    retained_messages: NotRequired[int]


class TopicsAnswer(TypedDict):
    """One page of topics."""

    topics: list[TopicAnswer]
    next_cursor: str | None


def shown(value: Topic) -> TopicAnswer:
    """Return the topic."""
    answer: TopicAnswer = {
        "name": value.name,
        "retention_seconds": value.retention_s,
        "max_message_bytes": value.body_bytes_max,
        "ordering": value.ordering.value,
        "subscriptions": value.subscription_count,
        "created_at": rfc3339(value.created_at),
        "updated_at": rfc3339(value.updated_at),
        "version": value.version,
        "keep": value.keep.value,
    }
    if value.events_topic is not None:
        answer["events_topic"] = value.events_topic
    return answer


def _answer(world: World, value: Topic, status: int = 200, **more: int) -> Answer:
    answer = shown(value)
    if value.events_topic is not None and (lost := lost_in(world, value.events_topic, "events")):
        answer["warnings"] = [lost]
    return Answer(status, {**answer, **more}, {"ETag": f'"{value.version}"'})


def lost_in(world: World, topic: str, what: str) -> str | None:
    """Say why *what* is published to a *topic* would be lost in it as it is now."""
    try:
        found = get_topic(world, topic)
    except NotFoundError:
        return f"The topic {topic} for {what} does not exist. They are lost until you create it"
    if not found.subscription_count:
        return f"The topic {topic} for {what} has no subscription. Its messages keep no body until it has one"
    return None


def _wanted_version(world: World, request: Request[Any]) -> int | None:
    """Return the version that a conditional change must find; None without a condition."""

    def present() -> int | None:
        try:
            return get_topic(world, request.topic).version
        except NotFoundError:
            return None

    return request.version("topic", present)


def put(world: World, request: Request[TopicBody]) -> Answer:
    """Create or replace a topic."""
    check_publishing(world, request.rights, request.topic, request.body.events_topic, "events_topic")
    topic, is_new = put_topic(
        world,
        request.topic,
        retention_s=request.body.retention_seconds,
        body_bytes_max=request.body.max_message_bytes,
        ordering=Ordering(request.body.ordering),
        keep=Keep(request.body.keep),
        events_topic=request.body.events_topic,
        if_match=_wanted_version(world, request),
    )
    return _answer(world, topic, 201 if is_new else 200)


def change(world: World, request: Request[TopicPatch]) -> Answer:
    """Change those settings of a topic that the request names."""
    check_publishing(world, request.rights, request.topic, request.body.events_topic, "events_topic")
    get_topic(world, request.topic)  # What does not exist is 404, whatever version it must have.
    wanted = _wanted_version(world, request)
    return _answer(world, change_topic(world, request.topic, request.body.of, wanted))


def one(world: World, request: Request[None]) -> Answer:
    """Answer with one topic and how much it retains."""
    return _answer(world, get_topic(world, request.topic), retained_messages=retained_count(world, request.topic))


def several(world: World, request: Request[None]) -> Answer:
    """Answer with a page of topics."""
    found = list_topics(world, *request.page())
    return Answer(200, page("topics", [shown(item) for item in found.items], encode_cursor(found.cursor)))


def delete(world: World, request: Request[None]) -> Answer:
    """Remove a topic without subscriptions."""
    delete_topic(world, request.topic, _wanted_version(world, request))
    return Answer(204)


_ONE = "/topics/{topic}"

ROUTES = (
    Route("GET", "/topics", several, "List the topics", {200: TopicsAnswer}, query=PAGING),
    Route(
        "PUT",
        _ONE,
        put,
        "Create or replace a topic",
        {201: TopicAnswer, 200: TopicAnswer},
        body=TopicBody,
        headers=("If-Match", "If-None-Match"),
    ),
    Route(
        "PATCH",
        _ONE,
        change,
        "Update a topic",
        {200: TopicAnswer},
        body=TopicPatch,
        headers=("If-Match",),
    ),
    Route("GET", _ONE, one, "Get a topic", {200: TopicAnswer}),
    Route("DELETE", _ONE, delete, "Delete a topic without subscriptions", {204: None}, headers=("If-Match",)),
)
