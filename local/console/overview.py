"""The first page: lanes that need attention, counted by need and by cause."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from operator import attrgetter
from urllib.parse import urlencode

from aiohttp import web

from local.console.attention import (
    GROUPS_SHOWN,
    Choice,
    by_need,
    group_by_cause,
    host_of,
    need_words,
    outcome_of,
    place,
)
from local.console.bulk import BULKS
from local.console.cached_list import part_of
from local.console.desk import desk_of

LANES_SHOWN = 25


async def overview(request: web.Request) -> web.Response:
    """Show the lanes that need attention, limited to the selection in the query."""
    desk, choice = desk_of(request), Choice.of(request.query)
    lanes, topics = await asyncio.gather(desk.lanes.look(), desk.topics.look())
    chosen = sorted(filter(choice.takes, lanes.items), key=place)
    part = part_of(chosen, request.query.get("page", ""), LANES_SHOWN)
    return desk.page(
        "overview.html",
        reading=lanes,
        running=request.app[BULKS].running(),
        needs=by_need(filter(replace(choice, need="").takes, lanes.items)),
        choice=choice,
        part=part,
        backlogs=await desk.backlogs.of(part.items),
        hosts=group_by_cause(chosen, host_of),
        topics_hurt=group_by_cause(chosen, attrgetter("topic")),
        outcomes=group_by_cause(chosen, outcome_of),
        groups_shown=GROUPS_SHOWN,
        need_words=need_words,
        topics=len(topics.items),
        topics_known=topics.is_whole,
        states=sorted({lane.state for lane in lanes.items}),
        page_query=lambda number: urlencode({**choice.parameters, "page": number}),
    )


ROUTES = (web.get("/", overview),)
