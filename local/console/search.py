"""Search: a message by its id, or what is retained by tag, property, state and time; retry what was found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from aiohttp import web
from tagcast_client import ConflictError, NotFoundError, operations
from tagcast_client.models import Message, Topic

from local.cli.instant import seconds_of
from local.console.acts import Preview
from local.console.desk import Desk, desk_of, together
from local.console.rendering import message_path
from local.console.topics import pairs

MESSAGES_READ, PAGE, TOPICS_ASKED, LANES_RETRIED = 500, 100, 100, 25
"""The bounds of a search: messages read of one topic, and how many on a page; topics asked for an id; lanes retried
at once."""


@dataclass(frozen=True)
class Wanted:
    """What is searched for among the retained messages; what is empty is not asked about."""

    tag: str = ""
    routing_key: str = ""
    properties: Mapping[str, str] | None = None
    subscription: str = ""
    state: str = ""
    since: datetime | None = None

    def takes(self, message: Message) -> bool:
        """Say whether a message is one of those."""
        return (
            (not self.tag or self.tag in message.tags)
            and (not self.routing_key or self.routing_key == message.routing_key)
            and all(message.properties.get(name) == value for name, value in (self.properties or {}).items())
            and (self.since is None or message.accepted_at >= self.since)
            and self._is_owed(message)
        )

    def _is_owed(self, message: Message) -> bool:
        if not self.subscription and not self.state:
            return True
        entries = message.subscribers.items()
        return any(self.subscription in ("", name) and self.state in ("", entry.state) for name, entry in entries)


def wanted_of(query: Mapping[str, str]) -> Wanted:
    """Read the fields of the form. Raises ValueError for a duration that is none."""
    within = query.get("within", "").strip()
    return Wanted(
        query.get("tag", "").strip(),
        query.get("routing_key", "").strip(),
        pairs(query.get("property", "")),
        query.get("subscription", "").strip(),
        query.get("state", "").strip(),
        datetime.now(UTC) - timedelta(seconds=seconds_of(within)) if within else None,
    )


async def search(request: web.Request) -> web.Response:
    """Go to the message whose id is given, or list the retained messages of a topic that are wanted."""
    desk, query = desk_of(request), request.query
    topic, message_id = query.get("topic", "").strip(), query.get("id", "").strip()
    faults: list[str] = []
    if message_id:
        found = await _topics_of(desk, topic, message_id)
        if len(found) == 1:
            raise web.HTTPSeeOther(message_path(found[0], message_id))
        faults.append(f"No topic that was asked has a message {message_id}, nor its receipt.")
    messages: list[Message] = []
    read, has_more = 0, False
    try:
        if topic and not message_id:
            messages, read, has_more = await _found(desk, topic, wanted_of(query))
    except ValueError as fault:
        faults.append(str(fault))
    return desk.page(
        "search.html", query=query, topic=topic, messages=messages, read=read, has_more=has_more, faults=faults
    )


async def _topics_of(desk: Desk, topic: str, message_id: str) -> list[str]:
    """Return the topics that know a message: the one that is named, or some of all."""
    if not (len(message_id) == 20 and message_id.isdecimal() and message_id.isascii()):
        return []
    names = [topic] if topic else [each.name for each in (await _some_topics(desk))]
    return [name for name in await together(_if_known(desk, name, message_id) for name in names) if name]


async def _some_topics(desk: Desk) -> Sequence[Topic]:
    return (await desk.api.send(operations.list_topics(TOPICS_ASKED, None))).items


async def _if_known(desk: Desk, topic: str, message_id: str) -> str | None:
    try:
        await desk.api.get_message(topic, message_id)
    except NotFoundError:
        return None
    return topic


async def _found(desk: Desk, topic: str, wanted: Wanted) -> tuple[list[Message], int, bool]:
    """Return what is wanted of the oldest retained messages, how many were read, and whether there are more."""
    cursor: str | None = None
    found: list[Message] = []
    read = 0
    while True:
        page = await desk.api.send(operations.list_messages(topic, False, PAGE, cursor))
        read += len(page.items)
        found += filter(wanted.takes, page.items)
        cursor = page.next_cursor
        if cursor is None or read >= MESSAGES_READ:
            return found, read, cursor is not None


async def retry_preview(request: web.Request) -> web.Response:
    """Tell which lanes a retry of what was found attempts."""
    desk, query = desk_of(request), request.query
    topic = query.get("topic", "").strip()
    messages, _, _ = await _found(desk, topic, wanted_of(query))
    names = lanes_of(messages, query.get("subscription", "").strip())
    sentences = (
        f"The heads of these lanes of {topic} are attempted now, at most {LANES_RETRIED}: {', '.join(names)}.",
        "What was found may stand behind a head: it follows as soon as the head gets through.",
    )
    stop = None if names else "Nothing that was found is owed to anybody."
    fields = {"topic": topic, "lanes": ",".join(names)}
    back = f"/search?{request.query_string}"
    preview = Preview("Retry what was found", sentences, "Retry", back, fields, stop=stop, action="/search/retry")
    return desk.page("confirm.html", preview=preview)


def lanes_of(messages: Iterable[Message], subscription: str) -> list[str]:
    """Return the names of the subscriptions that are owed some of *messages*, or of that one, up to a bound."""
    owed = (name for each in messages for name, entry in each.subscribers.items() if entry.state == "blocked")
    return list(islice((name for name in dict.fromkeys(owed) if subscription in ("", name)), LANES_RETRIED))


async def retry(request: web.Request) -> web.Response:
    """Retry the lanes that were told of; one that is active, asleep or gone by now is left as it is."""
    desk, form = desk_of(request), await request.post()
    topic = str(form.get("topic", ""))
    names = str(form.get("lanes", "")).split(",")[:LANES_RETRIED]
    retried = await asyncio.gather(*(_retried(desk, topic, name) for name in names if name))
    return desk.page("retried.html", topic=topic, retried=[name for name in retried if name], asked=len(names))


async def _retried(desk: Desk, topic: str, name: str) -> str | None:
    try:
        await desk.api.retry(topic, name)
    except (ConflictError, NotFoundError):
        return None
    return name


ROUTES = (
    web.get("/search", search),
    web.get("/search/retry", retry_preview),
    web.post("/search/retry", retry),
)
