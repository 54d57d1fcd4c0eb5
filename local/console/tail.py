"""The live tail: what a topic comes to owe, as it happens, as far as the API lists it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from aiohttp import web
from tagcast_client import operations
from tagcast_client.models import Entry, Message

from local.console.desk import desk_of

READ, SHOWN = 100, 60


@dataclass(frozen=True)
class Event:
    """Something that happened to a message; without a *subscription* it was accepted."""

    at: datetime
    message_id: str
    subscription: str | None
    entry: Entry | None


def events_of(messages: tuple[Message, ...], subscription: str, state: str) -> list[Event]:
    """Return what is known to have happened to *messages*, newest first, of one subscription and state if they say."""
    found = [
        Event(entry.last_attempt_at, message.message_id, name, entry)
        for message in messages
        for name, entry in message.subscribers.items()
        if entry.last_attempt_at is not None and subscription in ("", name) and state in ("", entry.state)
    ]
    if not subscription and not state:
        found += [Event(message.accepted_at, message.message_id, None, None) for message in messages]
    return sorted(found, key=lambda event: (event.at, event.message_id), reverse=True)[:SHOWN]


async def tail(request: web.Request) -> web.Response:
    """Show the last events of a topic; the page asks again every two seconds unless it is paused."""
    desk, query = desk_of(request), request.query
    topic = query.get("topic", "").strip()
    subscription, state = query.get("subscription", "").strip(), query.get("state", "").strip()
    events: list[Event] = []
    if topic:
        page = await desk.api.send(operations.list_messages(topic, False, READ, None))
        events = events_of(page.items, subscription, state)
    return desk.page("tail.html", query=query, topic=topic, events=events, paused=query.get("paused") == "yes")


ROUTES = (web.get("/tail", tail),)
