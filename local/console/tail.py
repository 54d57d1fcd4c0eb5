"""The live tail: a topic's events as they happen, and their rates."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from tagcast_client import NotFoundError, ThrottledError, UnreachableError
from tagcast_client.models import Counts, Tail

from local.console.desk import desk_of

SHOWN, SHOWN_IN_TOPIC = 60, 12
WAIT_S = 5
"""The seconds that a tail request waits. After a page is closed, its request occupies an invocation for this time."""
COUNTED_S_MIN = 5.0
"""A shorter period gives no rate."""


@dataclass(frozen=True)
class Rates:
    """The numbers of events per second, averaged over the last *seconds* seconds."""

    seconds: float
    published: float
    delivered: float
    failed: float


def rates_of(counts: Counts) -> Rates | None:
    """Return *counts* per second; None if they cover less than :data:`COUNTED_S_MIN` seconds.

    >>> from datetime import UTC, datetime
    >>> at = datetime(2026, 5, 1, tzinfo=UTC)
    >>> rates_of(Counts(at, at.replace(second=10), 5, 10, 0))
    Rates(seconds=10.0, published=0.5, delivered=1.0, failed=0.0)
    >>> rates_of(Counts(at, at.replace(second=1), 5, 10, 0)) is None
    True
    """
    seconds = (counts.counted_at - counts.since).total_seconds()
    if seconds < COUNTED_S_MIN:
        return None
    return Rates(seconds, *(each / seconds for each in (counts.published, counts.delivered, counts.failed)))


def wish_of(query: Mapping[str, str]) -> dict[str, Any]:
    """Convert the query of the page to the arguments of ``AsyncClient.tail`` that select events."""
    return {name: query.get(name, "").strip() or None for name in ("kind", "subscription", "state")}


async def tail(request: web.Request) -> web.Response:
    """Show a topic's last events. If the query has a cursor *after*, first wait a few seconds for a later event."""
    desk, query = desk_of(request), request.query
    topic, after = query.get("topic", "").strip(), query.get("after")
    result: Tail | None = None
    gone = ""
    try:
        if topic and after:
            with suppress(ThrottledError):  # Too many requests wait for the topic: read without waiting.
                await desk.api.tail(topic, **wish_of(query), max_events=1, cursor=after, wait_seconds=WAIT_S)
        if topic:
            shown = SHOWN_IN_TOPIC if query.get("short") == "yes" else SHOWN
            result = await desk.api.tail(topic, **wish_of(query), max_events=shown)
    except (NotFoundError, UnreachableError) as fault:
        if not after:
            raise
        gone = str(fault)
    parameters = {name: value for name, value in query.items() if name != "after"}
    return desk.page(
        "tail.html",
        query=parameters,
        topic=topic,
        topic_names=[] if after else await desk.topic_names(),
        result=result,
        gone=gone,
        rates=rates_of(result.counts) if result else None,
        paused=query.get("paused") == "yes",
    )


async def rates(request: web.Request) -> web.Response:
    """Show a topic's rates, as a part of a page that the page reloads."""
    desk, topic = desk_of(request), request.match_info["topic"]
    result = await desk.api.tail(topic, max_events=0)
    return desk.page("rates.html", rates=rates_of(result.counts), published_at=desk.charted.published_at(topic))


ROUTES = (web.get("/tail", tail), web.get("/topics/{topic}/rates", rates))
