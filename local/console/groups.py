"""Groups of consumers that pull: who is there, and what waits for them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from aiohttp import web
from tagcast_client import NotFoundError
from tagcast_client.models import Lane, Member, Subscription

from local.console.desk import Desk, desk_of, together

TOPICS_SHOWN, SUBSCRIPTIONS_READ = 25, 100


@dataclass(frozen=True)
class GroupView:
    """A group with its members that are alive; *lane* is as it stands now, *heard_at* when a member spoke last."""

    topic: str
    name: str
    lane: Lane
    members: tuple[Member, ...]

    @property
    def heard_at(self) -> datetime | None:
        """When a member spoke last."""
        return max((each.seen_at for each in self.members), default=None)

    @property
    def disagreeing(self) -> int:
        """How many members want another filter, and are given nothing."""
        return sum(not each.agrees for each in self.members)


async def groups_of(desk: Desk, topic: str) -> list[Subscription]:
    """Return the groups among the first subscriptions of a topic."""
    try:
        found = await desk.api.list_subscriptions(topic, limit=SUBSCRIPTIONS_READ).page()
    except NotFoundError:
        return []
    return [each for each in found.items if each.endpoint["protocol"] == "pull"]


async def view_of(desk: Desk, group: Subscription) -> GroupView | None:
    """Look at one group; None if it is gone by now."""
    try:
        found, members = await asyncio.gather(
            desk.api.get_subscription(group.topic, group.name), desk.api.list_members(group.topic, group.name)
        )
    except NotFoundError:
        return None
    return None if found.lane is None else GroupView(group.topic, group.name, found.lane, members)


async def groups(request: web.Request) -> web.Response:
    """Show the groups of the topics of a page, groups without a member first."""
    desk = desk_of(request)
    topics = await desk.api.list_topics(limit=TOPICS_SHOWN).page(request.query.get("topics"))
    named = [each for part in await together(groups_of(desk, topic.name) for topic in topics.items) for each in part]
    found = [each for each in await together(view_of(desk, group) for group in named) if each is not None]
    found.sort(key=lambda each: (bool(each.members), each.topic, each.name))
    return desk.page("groups.html", groups=found, topics=topics, read=SUBSCRIPTIONS_READ)


ROUTES = (web.get("/groups", groups),)
