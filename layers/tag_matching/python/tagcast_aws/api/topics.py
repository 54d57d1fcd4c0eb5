"""Routes of topics, their messages and the service itself."""

from __future__ import annotations

from typing import Any

from tagcast.errors import InvalidFilterError, InvalidRequestError
from tagcast.model import Ordering
from tagcast.operating.explaining import explain, test_filter
from tagcast.operating.messages import list_retained, message_view
from tagcast.ports import World
from tagcast.registry.topics import delete_topic, get_topic, list_topics, put_topic, retained_count

from tagcast_aws.api import answers, present
from tagcast_aws.api.http.body import TopicBody
from tagcast_aws.api.http.requests import Request, encode_cursor, required_name
from tagcast_aws.api.http.routing import Answer, Route, encoded_size
from tagcast_aws.api.limits import PAGE_BYTES_MAX
from tagcast_aws.api.publishing.body import FilterTestBody
from tagcast_aws.runtime.version import VERSION

PAGING = ("limit", "cursor")


def put(world: World, request: Request[TopicBody]) -> Answer:
    """Create or replace a topic."""
    topic, is_new = put_topic(
        world,
        request.topic,
        retention_s=request.body.retention_seconds,
        body_bytes_max=request.body.max_message_bytes,
        ordering=Ordering(request.body.ordering),
    )
    return Answer(201 if is_new else 200, present.topic(topic))


def one(world: World, request: Request[None]) -> Answer:
    """Answer with one topic and how much it retains."""
    topic = present.topic(get_topic(world, request.topic))
    topic["retained_messages"] = retained_count(world, request.topic)
    return Answer(200, topic)


def several(world: World, request: Request[None]) -> Answer:
    """Answer with a page of topics."""
    page = list_topics(world, *request.page())
    return Answer(200, present.page("topics", [present.topic(item) for item in page.items], encode_cursor(page.cursor)))


def delete(world: World, request: Request[None]) -> Answer:
    """Remove a topic without subscriptions."""
    delete_topic(world, request.topic)
    return Answer(204)


def retained(world: World, request: Request[None]) -> Answer:
    """Answer with a page of the retained messages, with their bodies only when asked for."""
    limit, cursor = request.page()
    show = present.message if request.flag("bodies") else present.message_without_body
    page = list_retained(
        world, request.topic, limit, cursor, size=lambda view: encoded_size(show(view)), size_max=PAGE_BYTES_MAX
    )
    shown = [show(item) for item in page.items]
    return Answer(200, present.page("messages", shown, encode_cursor(page.cursor)))


def message(world: World, request: Request[None]) -> Answer:
    """Answer with a message or its receipt."""
    return Answer(200, present.message(message_view(world, request.topic, request.path["message_id"])))


def why(world: World, request: Request[None]) -> Answer:
    """Answer why a subscription did or did not receive a message."""
    subscription = required_name(request, "subscription")
    return Answer(200, dict(explain(world, request.topic, request.path["message_id"], subscription)))


def try_filter(world: World, request: Request[FilterTestBody]) -> Answer:
    """Try a filter on a message; nothing is stored or sent."""
    try:
        verdict, explanation = test_filter(request.body.filter, request.body.message.draft())
    except InvalidFilterError as error:
        raise InvalidRequestError(tuple(fault.under("/filter") for fault in error.faults)) from None
    return Answer(200, {"verdict": verdict, "explanation": dict(explanation)})


def health(world: World, request: Request[None]) -> Answer:
    """Answer that the service answers."""
    return Answer(200, {"status": "ok", "version": VERSION})


def document(world: World, request: Request[None]) -> Answer:
    """Answer with the description of this API."""
    # Making it is rare and takes more imports than all the rest.
    from tagcast_aws.api.http.openapi import openapi

    return Answer(200, openapi())


_TOPIC = "/topics/{topic}"
_MESSAGE = "/topics/{topic}/messages/{message_id}"

ROUTES = (
    Route("GET", "/topics", several, "List the topics", {200: answers.TopicsAnswer}, query=PAGING),
    Route(
        "PUT",
        _TOPIC,
        put,
        "Create or replace a topic",
        {201: answers.TopicAnswer, 200: answers.TopicAnswer},
        body=TopicBody,
    ),
    Route("GET", _TOPIC, one, "Look at a topic", {200: answers.TopicAnswer}),
    Route("DELETE", _TOPIC, delete, "Remove a topic that has no subscriptions", {204: None}),
    Route(
        "GET",
        "/topics/{topic}/messages",
        retained,
        "List the retained messages",
        {200: answers.MessagesAnswer},
        query=(*PAGING, "bodies"),
    ),
    Route("GET", _MESSAGE, message, "Look at a message or its receipt", {200: answers.MessageAnswer}),
    Route(
        "GET",
        _MESSAGE + "/explain",
        why,
        "Explain why a subscription did or did not receive a message",
        {200: dict[str, Any]},
        query=("subscription",),
    ),
    Route(
        "POST",
        "/filters/test",
        try_filter,
        "Try a filter on a message",
        {200: answers.FilterTestAnswer},
        body=FilterTestBody,
    ),
    Route("GET", "/health", health, "Say that the service answers", {200: answers.HealthAnswer}, is_public=True),
    Route("GET", "/openapi.json", document, "Describe this API", {200: dict[str, Any]}, is_public=True),
)
