"""Lists the inactive lanes of all topics, in the order of their next check, and the hosts that did not respond."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import merge

from tagcast.errors import CURSOR_FAULT, InvalidRequestError
from tagcast.ids import SUBSCRIPTION_ID, accepted_at_of, topic_id_of
from tagcast.model import LaneState, Subscription
from tagcast.operating.lanes import DueDelivery, due_delivery
from tagcast.operating.subscription_names import subscription_name
from tagcast.ports import World
from tagcast.registry.subscriptions import get_subscription
from tagcast.rows import stored
from tagcast.rows.host import HOSTS, Host, host_of, host_rows
from tagcast.rows.keys import subscription_key
from tagcast.rows.lane import LANES, WAKE_SHARDS, Lane, place_in_index
from tagcast.rows.subscription import SUBSCRIPTIONS
from tagcast.setting import NAME
from tagcast.tables import Page

ANY_TIME = 1 << 53
Places = tuple[Lane | None, ...]
"""The last listed lane of each shard of the index; None before the first."""


@dataclass(frozen=True, slots=True)
class UrgentLane:
    """A lane, with the name of its subscription and its *head*, the first pending delivery (None without a backlog).

    *host* is the host of the endpoint; None for a group. *unverified* is the reason why the endpoint is unverified;
    None if it is verified. Each manual change gives the lane a new *generation*.
    """

    topic: str
    subscription: str
    state: LaneState
    head: DueDelivery | None
    host: str | None = None
    unverified: str | None = None
    generation: str = ""

    @property
    def accepted_at(self) -> int | None:
        """The acceptance time of the head's message; None if the lane has no head."""
        return None if self.head is None else accepted_at_of(self.head.message_id)


def urgent_lanes(world: World, limit: int, cursor: str | None) -> Page[UrgentLane]:
    """Return at most *limit* lanes that are not active, after *cursor*, in the order of their next checks.

    The next check of a lane is its next attempt, or the earliest expiry in its backlog.

    The index is eventually consistent, and lanes move while it is read. So a lane may be missing or appear twice. A
    paused lane without a backlog is not listed. Raises InvalidRequestError for an invalid *cursor*.
    """
    after = (None,) * WAKE_SHARDS if cursor is None else _read(world, cursor)
    shards = [_shard(world, shard, limit + 1, last) for shard, last in enumerate(after)]
    found = list(merge(*shards, key=lambda each: each[1].wake_at or 0))
    last = list(after)
    for shard, lane in found[:limit]:
        last[shard] = lane
    named = _with_names(world, [lane for _, lane in found[:limit] if lane.state is not LaneState.REMOVED])
    known = _subscriptions(world, named)
    shown = (_urgent(world, lane, name, known.get(lane.subscription_id)) for lane, name in named)
    return Page(tuple(shown), _cursor_of(last) if len(found) > limit else None)


def _shard(world: World, shard: int, limit: int, after: Lane | None) -> list[tuple[int, Lane]]:
    behind = None if after is None else place_in_index(after)
    return [(shard, LANES.value_of(row)) for row in world.store.lanes_to_wake(shard, limit, after=behind)]


def _with_names(world: World, lanes: list[Lane]) -> list[tuple[Lane, str]]:
    """Return lanes with the names of their subscriptions, without lanes whose name is not stored any more."""
    named = ((lane, subscription_name(world, lane.topic, lane.subscription_id)) for lane in lanes)
    return [(lane, name) for lane, name in named if name is not None]


def _subscriptions(world: World, named: list[tuple[Lane, str]]) -> dict[str, Subscription]:
    """Return the subscriptions of lanes from one read, by id."""
    rows = world.store.get_many([subscription_key(lane.topic, name) for lane, name in named])
    return {each.subscription_id: each for each in map(SUBSCRIPTIONS.value_of, rows.values())}


def _urgent(world: World, lane: Lane, name: str, subscription: Subscription | None) -> UrgentLane:
    heads = stored.dues(world.store, lane.subscription_id, limit=1)
    head = due_delivery(world, subscription, heads[0], lane, is_head=True) if heads else None
    if subscription is None:
        return UrgentLane(lane.topic, name, lane.state, head, generation=lane.generation)
    host = None if subscription.settings.is_group else host_of(subscription.settings.endpoint)
    return UrgentLane(lane.topic, name, lane.state, head, host, subscription.settings.unverified, lane.generation)


def find_lane(world: World, topic: str, name: str) -> UrgentLane:
    """Return one lane, active or not, like an item of :func:`urgent_lanes`. Raises NotFoundError."""
    subscription = get_subscription(world, topic, name)
    row = stored.lane(world.store, topic, subscription.subscription_id)
    lane = row or Lane(topic, subscription.subscription_id, LaneState.ACTIVE, "", 0, 0, None, None)
    return _urgent(world, lane, name, subscription)


def _cursor_of(last: list[Lane | None]) -> str:
    return json.dumps([lane and (lane.wake_at, lane.topic, lane.subscription_id) for lane in last])


def without_names(cursor: str, is_open: Callable[[str], bool]) -> str:
    """Return *cursor* without the names of topics for which *is_open* returns False, because clients can read a cursor.

    When the next page is read, these names are looked up by the topics' ids.
    """
    places = json.loads(cursor)
    return json.dumps([place and (place[0], place[1] if is_open(place[1]) else None, place[2]) for place in places])


def _read(world: World, cursor: str) -> Places:
    try:
        places = json.loads(cursor)
        are_all = all(place is None or place[1] is not None for place in places)
        topics = {} if are_all else {topic_id: name for name, topic_id in stored.topic_ids(world.store)}
        read = tuple(None if place is None else _lane_at(topics, shard, *place) for shard, place in enumerate(places))
    except (LookupError, TypeError, ValueError, RecursionError):
        read = ()
    if len(read) != WAKE_SHARDS:
        raise InvalidRequestError((CURSOR_FAULT,))
    return read


def _lane_at(topics: Mapping[str, str], shard: int, wake_at: int, topic: str | None, subscription_id: str) -> Lane:
    """Return a lane with only its place in the index. Raises ValueError if no lane of *shard* can have the place.

    *topic* is the topic's name. If it is None, *topics* has the names by topic id, except those of deleted topics.
    """
    topic = topics.get(topic_id_of(subscription_id), "deleted") if topic is None else topic
    is_instant = type(wake_at) is int and 0 <= wake_at <= ANY_TIME
    if not (is_instant and re.fullmatch(NAME, topic) and SUBSCRIPTION_ID.fullmatch(subscription_id)):
        raise ValueError("not a place in the index")
    lane = Lane(topic, subscription_id, LaneState.BLOCKED, "", 0, 0, None, wake_at)
    if place_in_index(lane)["wake_shard"] != str(shard):
        raise ValueError("a place of another shard")
    return lane


def list_hosts(world: World, limit: int, cursor: str | None) -> Page[Host]:
    """Return the hosts that did not respond recently, in arbitrary order, from *cursor* on. None is the start.

    A host is listed for an hour after the last write of its row. A page may have fewer than *limit* hosts.
    """
    rows, now = host_rows(world.store, after=cursor or "", limit=limit + 1), world.clock.now()
    hosts = (HOSTS.value_of(row) for row in rows[:limit])
    following = stored.place(rows[limit]) if len(rows) > limit else None
    return Page(tuple(host for host in hosts if now < host.kept_until), following)
