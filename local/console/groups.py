"""The page of consumer groups: their members and their backlogs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain

from aiohttp import web
from tagcast_client.models import Lane, Member, Subscription

from local.console.cached_list import none_if_missing, together
from local.console.desk import Desk, desk_of

TOPICS_SHOWN, SUBSCRIPTIONS_READ = 25, 100


@dataclass(frozen=True)
class GroupView:
    """A consumer group as shown on the page: its live members and its *lane*."""

    topic: str
    name: str
    lane: Lane
    members: tuple[Member, ...]

    @property
    def heard_at(self) -> datetime | None:
        """The time of the last heartbeat of any member; None without members."""
        return max((each.seen_at for each in self.members), default=None)

    @property
    def disagreeing(self) -> int:
        """The number of members whose filter or order differs from the group's. They receive nothing."""
        return sum(not each.agrees for each in self.members)


async def groups_of(desk: Desk, topic: str) -> list[Subscription]:
    """Return the consumer groups of a topic. Only its first :data:`SUBSCRIPTIONS_READ` subscriptions are read."""
    found = await none_if_missing(desk.api.list_subscriptions(topic, limit=SUBSCRIPTIONS_READ).page())
    return [each for each in found.items if each.endpoint["protocol"] == "pull"] if found else []


async def view_of(desk: Desk, group: Subscription) -> GroupView | None:
    """Return the view of one group; None if the group was deleted."""
    found, members = await asyncio.gather(
        none_if_missing(desk.api.get_subscription(group.topic, group.name)),
        none_if_missing(desk.api.list_members(group.topic, group.name)),
    )
    if found is None or found.lane is None or members is None:
        return None
    return GroupView(group.topic, group.name, found.lane, members)


async def groups(request: web.Request) -> web.Response:
    """Show the groups of one page of topics. Groups without members come first."""
    desk = desk_of(request)
    topics = await desk.api.list_topics(limit=TOPICS_SHOWN).page(request.query.get("topics"))
    parts = await together(partial(groups_of, desk), [topic.name for topic in topics.items])
    found = [each for each in await together(partial(view_of, desk), chain.from_iterable(parts)) if each is not None]
    found.sort(key=lambda each: (bool(each.members), each.topic, each.name))
    return desk.page("groups.html", groups=found, topics=topics, read=SUBSCRIPTIONS_READ)


ROUTES = (web.get("/groups", groups),)
