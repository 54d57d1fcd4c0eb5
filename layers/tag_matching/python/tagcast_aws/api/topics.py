"""Topics: their settings, in and out."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from tagcast.instant import rfc3339
from tagcast.model import BODY_BYTES_DEFAULT, BODY_BYTES_MAX, RETENTION_S_MAX, RETENTION_S_MIN, Keep, Ordering, Topic
from tagcast.ports import World
from tagcast.registry.topics import delete_topic, get_topic, list_topics, put_topic, retained_count
from typing_extensions import TypedDict

from tagcast_aws.api.http.body import Body
from tagcast_aws.api.http.paging import PAGING, encode_cursor, page
from tagcast_aws.api.http.requests import Request
from tagcast_aws.api.http.routing import Answer, Route


class TopicBody(Body):
    """The settings of a topic; what is left out has its default."""

    retention_seconds: Annotated[int, Field(ge=RETENTION_S_MIN, le=RETENTION_S_MAX)] = RETENTION_S_MAX
    max_message_bytes: Annotated[int, Field(ge=1, le=BODY_BYTES_MAX)] = BODY_BYTES_DEFAULT
    ordering: Literal["topic", "key", "none"] = Ordering.TOPIC.value
    keep: Literal["owed", "life"] = Keep.OWED.value


class TopicAnswer(TypedDict):
    """A topic; ``retained_messages`` where one topic is asked for."""

    name: str
    retention_seconds: int
    max_message_bytes: int
    ordering: str
    subscriptions: int
    created_at: str
    updated_at: str
    keep: NotRequired[str]
    retained_messages: NotRequired[int]


class TopicsAnswer(TypedDict):
    """One page of topics."""

    topics: list[TopicAnswer]
    next_cursor: str | None


def shown(value: Topic) -> TopicAnswer:
    """Return the topic."""
    return {
        "name": value.name,
        "retention_seconds": value.retention_s,
        "max_message_bytes": value.body_bytes_max,
        "ordering": value.ordering.value,
        "subscriptions": value.subscription_count,
        "created_at": rfc3339(value.created_at),
        "updated_at": rfc3339(value.updated_at),
        "keep": value.keep.value,
    }


def put(world: World, request: Request[TopicBody]) -> Answer:
    """Create or replace a topic."""
    topic, is_new = put_topic(
        world,
        request.topic,
        retention_s=request.body.retention_seconds,
        body_bytes_max=request.body.max_message_bytes,
        ordering=Ordering(request.body.ordering),
        keep=Keep(request.body.keep),
    )
    return Answer(201 if is_new else 200, shown(topic))


def one(world: World, request: Request[None]) -> Answer:
    """Answer with one topic and how much it retains."""
    answer = shown(get_topic(world, request.topic))
    answer["retained_messages"] = retained_count(world, request.topic)
    return Answer(200, answer)


def several(world: World, request: Request[None]) -> Answer:
    """Answer with a page of topics."""
    found = list_topics(world, *request.page())
    return Answer(200, page("topics", [shown(item) for item in found.items], encode_cursor(found.cursor)))


def delete(world: World, request: Request[None]) -> Answer:
    """Remove a topic without subscriptions."""
    delete_topic(world, request.topic)
    return Answer(204)


_ONE = "/topics/{topic}"

ROUTES = (
    Route("GET", "/topics", several, "List the topics", {200: TopicsAnswer}, query=PAGING),
    Route("PUT", _ONE, put, "Create or replace a topic", {201: TopicAnswer, 200: TopicAnswer}, body=TopicBody),
    Route("GET", _ONE, one, "Look at a topic", {200: TopicAnswer}),
    Route("DELETE", _ONE, delete, "Remove a topic that has no subscriptions", {204: None}),
)
