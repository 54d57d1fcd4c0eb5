"""The list of topics, with a search. Also the page of one topic, on which a message can be published."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from urllib.parse import urlencode

from aiohttp import web
from tagcast_client import NewMessage, TagcastError
from tagcast_client.operation import idempotency
from tagcast_client.outgoing import MessageAttributes
from tagcast_client.settings import MESSAGE_ATTRIBUTES

from local.console.attention import group_by_cause
from local.console.cached_list import part_of
from local.console.desk import desk_of, form_fields
from local.console.filter_form import words
from local.console.forms import UnreadableFieldError, faults_of, named_lines, read_field
from local.console.rendering import message_path

TOPICS_SHOWN, SUBSCRIPTIONS_SHOWN, MESSAGES_SHOWN = 25, 50, 25


TEXT_ATTRIBUTES = [
    each for each in MESSAGE_ATTRIBUTES if each.type == "string" and each.name in MessageAttributes.__annotations__
]
"""The attributes of a message whose value is one text."""


pairs_of = partial(named_lines, sign="=")
"""Reads properties, one NAME=VALUE per line. Raises ValueError."""


async def topics(request: web.Request) -> web.Response:
    """Show the topics whose name contains the text in the query. Topics with the most non-active lanes come first."""
    desk, query = desk_of(request), request.query
    text, owing = query.get("text", "").strip(), query.get("owing") == "yes"
    reading, lanes = await asyncio.gather(desk.topics.look(), desk.lanes.look())
    troubles = {cause.name: cause for cause in group_by_cause(lanes.items, attrgetter("topic"))}
    found = [each for each in reading.items if text.lower() in each.name.lower()]
    found = [each for each in found if not owing or each.name in troubles]
    found.sort(key=lambda each: (-troubles[each.name].lanes if each.name in troubles else 0, each.name))
    parameters = {name: value for name, value in (("text", text), ("owing", "yes" if owing else "")) if value}
    return desk.page(
        "topics.html",
        reading=reading,
        troubles=troubles,
        text=text,
        owing=owing,
        part=part_of(found, query.get("page", ""), TOPICS_SHOWN),
        page_query=lambda number: urlencode({**parameters, "page": number}),
    )


async def retained_count(request: web.Request) -> web.Response:
    """Show the number of a topic's retained messages, as a table cell. Pages load it when the cell becomes visible."""
    desk, name = desk_of(request), request.match_info["topic"]
    topic, oldest = await asyncio.gather(
        desk.api.get_topic(name),
        desk.api.list_messages(name, limit=1).page(),
    )
    return desk.page("retained.html", topic=topic, oldest=next(iter(oldest.items), None))


async def topic(request: web.Request) -> web.Response:
    """Show the page of a topic."""
    return await _page(request, {}, ())


async def _page(request: web.Request, fields: Mapping[str, str], faults: Sequence[tuple[str, str]]) -> web.Response:
    """Show a topic. *fields* are the fields of a form that was not accepted, with their *faults*."""
    desk, name = desk_of(request), request.match_info["topic"]
    settings, subscriptions, messages = await asyncio.gather(
        desk.api.get_topic(name),
        desk.api.list_subscriptions(name, limit=SUBSCRIPTIONS_SHOWN).page(request.query.get("subscriptions")),
        desk.api.list_messages(name, limit=MESSAGES_SHOWN).page(request.query.get("messages")),
    )
    return desk.page(
        "topic.html",
        422 if faults else 200,
        topic=settings,
        subscriptions=subscriptions,
        messages=messages,
        fields=fields,
        faults=faults,
        once=fields.get("once") or str(uuid.uuid4()),
        texts=TEXT_ATTRIBUTES,
    )


async def publish(request: web.Request) -> web.Response:
    """Publish the submitted message, and redirect to it. Submitting the same form again publishes nothing.

    A refused form is shown again with its fields and faults.
    """
    desk, name, fields = desk_of(request), request.match_info["topic"], await form_fields(request)
    try:
        message = new_message(fields)
        accepted = await desk.api.publish(
            name,
            message.body,
            **message.attributes,
            idempotency_key=read_field(fields, "once", idempotency),
        )
    except (TagcastError, UnreadableFieldError) as refused:
        return await _page(request, fields, faults_of(refused))
    raise web.HTTPSeeOther(message_path(name, accepted.message_id))


def new_message(fields: Mapping[str, str]) -> NewMessage:
    """Return the message in the fields of a submitted form. Raises UnreadableFieldError.

    >>> new_message({"body": "x", "tags": "a, b", "properties": "price=12"}).as_json()
    {'body': 'x', 'tags': ['a', 'b'], 'properties': {'price': '12'}}
    """
    texts = {each.name: fields.get(each.name, "").strip() or None for each in TEXT_ATTRIBUTES}
    found = {"tags": words(fields.get("tags", "")), "properties": read_field(fields, "properties", pairs_of), **texts}
    return NewMessage.like(found, fields.get("body", ""))


ROUTES = (
    web.get("/topics", topics),
    web.get("/topics/{topic}", topic),
    web.get("/topics/{topic}/retained", retained_count),
    web.post("/topics/{topic}", publish),
)
