"""The first page: the lanes that need attention, then the topics."""

from __future__ import annotations

import asyncio
from datetime import datetime

from aiohttp import web
from tagcast_client import operations
from tagcast_client.models import OwedHead, UrgentLane

from local.console.desk import desk_of
from local.console.rendering import expires_soon

LANES_SHOWN, TOPICS_SHOWN = 25, 25
NEEDS = {"suspended": 0, "lost_contact": 1, "blocked": 1, "paused": 2}
"""Nobody but people ends a suspension; a pause is what somebody wanted."""


def by_need(lane: UrgentLane, head: OwedHead) -> tuple[bool, int, datetime]:
    """Return the place of a lane: first what expires within the hour, then by its state, then by its age."""
    return not expires_soon(head.expires_at), NEEDS.get(lane.state, 1), head.accepted_at


def sorted_by_need(lanes: tuple[UrgentLane, ...]) -> list[UrgentLane]:
    """Return lanes with those first that need people most; those without a head last."""
    owing = [(by_need(lane, lane.head), lane) for lane in lanes if lane.head is not None]
    owing.sort(key=lambda each: each[0])
    return [lane for _, lane in owing] + [lane for lane in lanes if lane.head is None]


async def overview(request: web.Request) -> web.Response:
    """Show what needs attention, and which topics there are."""
    desk = desk_of(request)
    lanes, topics = await asyncio.gather(
        desk.api.send(operations.list_lanes(LANES_SHOWN, request.query.get("lanes"))),
        desk.api.send(operations.list_topics(TOPICS_SHOWN, request.query.get("topics"))),
    )
    return desk.page("overview.html", lanes=sorted_by_need(lanes.items), more_lanes=lanes.next_cursor, topics=topics)


async def owed(request: web.Request) -> web.Response:
    """Tell what one topic retains: its cell in the table of topics, asked for when it comes into sight."""
    desk, name = desk_of(request), request.match_info["topic"]
    topic, oldest = await asyncio.gather(
        desk.api.send(operations.get_topic(name)),
        desk.api.send(operations.list_messages(name, bodies=False, limit=1, cursor=None)),
    )
    return desk.page("owed.html", topic=topic, oldest=next(iter(oldest.items), None))


ROUTES = (web.get("/", overview), web.get("/topics/{topic}/owed", owed))
