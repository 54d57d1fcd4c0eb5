"""The page of a message: who is owed it, who got it when, and why any subscription did or did not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web
from tagcast_client import NotFoundError, operations
from tagcast_client.models import Entry, Message

from local.console.desk import Desk, desk_of
from local.console.lanes import history_in
from local.console.verdicts import lines

SUBSCRIPTIONS_SHOWN = 100
MAP_PAGES_MAX = 10
BODY_SHOWN = 20_000
OWED = ("blocked", "pending")


@dataclass(frozen=True)
class Fate:
    """What became of a message for one subscription; without an *entry* it was not for it.

    *after_s* is how long after its acceptance the last attempt was.
    """

    name: str
    entry: Entry | None
    after_s: float | None


def fates(message: Message, names: list[str]) -> list[Fate]:
    """Return the fate at every matched subscription, owed ones first, then at those of *names* that are no others.

    While not all of a wide message's map was read, nobody is said to have no part in it.
    """
    found = [Fate(name, entry, _after_s(message, entry)) for name, entry in message.subscribers.items()]
    found.sort(key=lambda fate: (fate.entry is not None and fate.entry.state not in OWED, fate.name))
    others = [] if message.next_cursor else [name for name in names if name not in message.subscribers]
    return found + [Fate(name, None, None) for name in others]


def _after_s(message: Message, entry: Entry) -> float | None:
    return None if entry.last_attempt_at is None else (entry.last_attempt_at - message.accepted_at).total_seconds()


async def message(request: web.Request) -> web.Response:
    """Show a message or its receipt; with ``?why=NAME`` also why that subscription did or did not get it."""
    desk, topic, message_id = desk_of(request), request.match_info["topic"], request.match_info["message_id"]
    name = request.query.get("why", "").strip()
    found, names = await asyncio.gather(_message(desk, topic, message_id), _names(desk, topic))
    why = await _why(desk, topic, message_id, name) if name else None
    told = fates(found, names)
    return desk.page(
        "message.html",
        message=found,
        fates=told[:SUBSCRIPTIONS_SHOWN],
        hidden=max(0, len(told) - SUBSCRIPTIONS_SHOWN),
        longest_s=max((fate.after_s or 0.0 for fate in told), default=0.0),
        body=body_text(found),
        body_shown=BODY_SHOWN,
        name=name,
        why=why,
        history=history_in(why) if why else [],
        tree=lines(why["filter"]["explanation"]) if why and why.get("filter") else [],
    )


async def _message(desk: Desk, topic: str, message_id: str) -> Message:
    """Return a message with its state map, of a very wide one with the first pages of that."""
    found = await desk.api.get_message(topic, message_id)
    for _ in range(MAP_PAGES_MAX - 1):
        if found.next_cursor is None:
            break
        more = await desk.api.get_message(topic, message_id, cursor=found.next_cursor)
        found = replace(more, subscribers={**found.subscribers, **more.subscribers})
    return found


async def _names(desk: Desk, topic: str) -> list[str]:
    try:
        page = await desk.api.send(operations.list_subscriptions(topic, SUBSCRIPTIONS_SHOWN, None))
    except NotFoundError:
        return []
    return [each.name for each in page.items]


async def _why(desk: Desk, topic: str, message_id: str, name: str) -> Mapping[str, Any] | None:
    try:
        return await desk.api.explain(topic, message_id, name)
    except NotFoundError:
        return None


def body_text(message: Message) -> str | None:
    """Return the body as text, octets as hexadecimal numbers; None once it is gone."""
    content = message.content
    if content is None:
        return None
    if message.body is not None:
        return message.body
    return content[: BODY_SHOWN // 3].hex(" ", -4)


ROUTES = (web.get("/topics/{topic}/messages/{message_id:[0-9]{20}}", message),)
