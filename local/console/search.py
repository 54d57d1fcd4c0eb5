"""Finds a message by id, or lists messages that match criteria. Found deliveries can be retried or skipped.

The criteria apply to retained messages, or to all messages of the last day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web
from tagcast_cli.instant import seconds_of
from tagcast_client import ConflictError, NotFoundError, ProblemError
from tagcast_client.models import History, Message

from local.console.attention import Name
from local.console.bulk import LANES_MAX, page_of
from local.console.desk import Desk, desk_of
from local.console.forms import UnreadableFieldError, read_field
from local.console.rendering import message_path
from local.console.topics import pairs_of

STATES = ("blocked", "pending", "delivered", "discarded", "expired", "cancelled", "filtered")
"""States of deliveries in the forms."""
MESSAGES_READ, PAGE, HISTORY_SHOWN = 500, 100, 50
"""Bounds of a search: messages read of one topic, messages per request, a page of a history."""


@dataclass(frozen=True)
class MessageCriteria:
    """The criteria of a search for retained messages. An empty field does not restrict the search."""

    tag: str = ""
    routing_key: str = ""
    properties: Mapping[str, str] | None = None
    subscription: str = ""
    state: str = ""
    since: datetime | None = None

    def takes(self, message: Message) -> bool:
        """Return whether a message meets all criteria."""
        return (
            (not self.tag or self.tag in message.tags)
            and (not self.routing_key or self.routing_key == message.routing_key)
            and all(message.properties.get(name) == value for name, value in (self.properties or {}).items())
            and (self.since is None or message.accepted_at >= self.since)
            and self._is_pending(message)
        )

    def _is_pending(self, message: Message) -> bool:
        if not self.subscription and not self.state:
            return True
        entries = message.subscribers.items()
        return any(self.subscription in ("", name) and self.state in ("", entry.state) for name, entry in entries)


def parse_criteria(query: Mapping[str, str]) -> MessageCriteria:
    """Return the criteria in the fields of the search form. Raises UnreadableFieldError."""
    texts = {name: query.get(name, "").strip() for name in ("tag", "routing_key", "subscription", "state")}
    properties, since = read_field(query, "property", pairs_of), read_field(query, "within", since_of)
    return MessageCriteria(**texts, properties=properties, since=since)


def since_of(within: str) -> datetime:
    """Return now minus the duration *within*, such as 15m. Raises ValueError."""
    try:
        return datetime.now(UTC) - timedelta(seconds=seconds_of(within))
    except OverflowError:
        raise ValueError(f"{within!r} begins before the year 1") from None


async def search(request: web.Request) -> web.Response:
    """Redirect to the message with the id in the query. Without an id, list the retained messages that match."""
    desk, query = desk_of(request), request.query
    topic, message_id = query.get("topic", "").strip(), query.get("id", "").strip()
    faults: list[str] = []
    if message_id and not (where := await _where(desk, topic, message_id, faults)):
        faults = faults or [f"No topic has a message or a receipt with the id {message_id}."]
    elif message_id:
        raise web.HTTPSeeOther(message_path(where, message_id))
    messages: list[Message] = []
    read, has_more = 0, False
    try:
        if topic and not message_id:
            messages, read, has_more = await _find_matches(desk, topic, parse_criteria(query))
    except UnreadableFieldError as fault:
        faults.append(str(fault))
    return desk.page(
        "search.html",
        query=query,
        states=STATES,
        topic=topic,
        topic_names=await desk.topic_names(),
        messages=messages,
        read=read,
        has_more=has_more,
        faults=faults,
    )


async def _where(desk: Desk, topic: str, message_id: str, faults: list[str]) -> str:
    """Return the topic of a message, or an empty text. A failed search adds to *faults*."""
    if not (len(message_id) == 20 and message_id.isdecimal() and message_id.isascii()):
        faults.append(f"{message_id} is not a message id. Expected 20 digits.")
        return ""
    try:
        request = desk.api.get_message(topic, message_id) if topic else desk.api.find_message(message_id)
        return (await request).topic
    except NotFoundError:
        return ""
    except ConflictError as several:
        faults.append(f"{several.detail}. Enter its topic, too.")
        return ""


async def _find_matches(desk: Desk, topic: str, wanted: MessageCriteria) -> tuple[list[Message], int, bool]:
    """Return the matches among the oldest retained messages, the number of read messages, and whether more exist."""
    cursor: str | None = None
    found: dict[str, Message] = {}
    read = 0
    while True:
        page = await desk.api.list_messages(topic, limit=PAGE).page(cursor)
        read += len(page.items)
        for each in filter(wanted.takes, page.items):  # A wide message comes once for each section of its map.
            known = found.get(each.message_id)
            seen = {} if known is None else known.subscribers
            found[each.message_id] = replace(each, subscribers={**seen, **each.subscribers})
        cursor = page.next_cursor
        if cursor is None or read >= MESSAGES_READ:
            return list(found.values()), read, cursor is not None


async def act_preview(request: web.Request) -> web.Response:
    """Show the preview of a retry or a skip. The action applies to the lanes whose backlogs have found messages."""
    desk, query, act = desk_of(request), request.query, request.match_info["act"]
    topic = query.get("topic", "").strip()
    messages, _, _ = await _find_matches(desk, topic, parse_criteria(query))
    lanes = lanes_pending(messages, query.get("subscription", "").strip())
    ids = [each.message_id for each in messages] if act == "skip" else []
    parameters = {name: value.strip() for name, value in query.items() if value.strip()}
    return page_of(desk, act, lanes, f"/search?{request.query_string}", chosen=parameters, messages=ids)


def lanes_pending(messages: Iterable[Message], subscription: str) -> list[Name]:
    """Return the lanes whose backlog has at least one of *messages*, at most :data:`LANES_MAX` lanes.

    If *subscription* is not empty, return only lanes of subscriptions with this name.
    """
    pending = (
        (each.topic, n) for each in messages for n, entry in each.subscribers.items() if entry.state == "blocked"
    )
    return [lane for lane in dict.fromkeys(pending) if subscription in ("", lane[1])][:LANES_MAX]


async def history(request: web.Request) -> web.Response:
    """Show one page of a topic's messages of the last day, limited to those that match the query."""
    desk, name = desk_of(request), request.match_info["topic"]
    fields = {field: text.strip() for field, text in request.query.items() if text.strip()}
    found, fault = History((), None, None), ""
    try:
        found = await desk.api.read_history(name, **_criteria(fields), limit=HISTORY_SHOWN, cursor=fields.get("cursor"))
    except ValueError as problem:
        fault = str(problem)
    except ProblemError as problem:
        if problem.status == 404 and "subscription" not in fields:
            raise
        fault = str(problem)
    narrowed = {field: text for field, text in fields.items() if field != "cursor"}
    values: dict[str, Any] = {"name": name, "fields": narrowed, "found": found, "fault": fault}
    return desk.page("history.html", states=(*STATES, "unmatched"), **values)


def _criteria(fields: dict[str, str]) -> dict[str, Any]:
    """Return the search criteria in the fields. Raises ValueError.

    >>> _criteria({"tag": "a", "property": "customer=42"})
    {'tag': 'a', 'property': 'customer=42'}
    """
    criteria = {field: fields[field] for field in ("tag", "property", "subscription", "state") if field in fields}
    return criteria | ({"since": since_of(fields["within"])} if "within" in fields else {})


ROUTES = (
    web.get("/search", search),
    web.get("/search/{act:retry|skip}", act_preview),
    web.get("/topics/{topic}/history", history),
)
