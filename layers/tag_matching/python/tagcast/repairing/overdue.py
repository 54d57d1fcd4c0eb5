"""Restarts overdue lanes, finds sleeping lanes with deliveries to expire, and measures backlogs.

Nothing reports an execution that died or was stopped. The sweep restarts its lane when ``wake_at`` is 15 s ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nsmallest

from tagcast.concurrency.isolation import each
from tagcast.errors import ConditionLostError
from tagcast.ids import ordinal_of
from tagcast.model import LaneState
from tagcast.ports import Row, World
from tagcast.rows import stored
from tagcast.rows.lane import LANES, WAKE_SHARDS, Lane
from tagcast.rows.lane_transitions import restart

OVERDUE_GRACE_S = 15
LANES_PAGE, LANES_MAX, HEADS_MAX = 500, 5_000, 200
"""A sweep reads 500 lanes at once, and at most 5,000 of each shard. It reads the backlogs of at most 200 lanes."""
SOON_S = 3_600
"""Deliveries that expire within this time count as expiring soon."""
COUNTED_MAX = 500
"""A backlog is counted up to 500 deliveries from its head."""


@dataclass(slots=True)
class FoundLanes:
    """The lanes that a sweep found. *restarted* is the number of restarted lanes.

    *oldest_overdue_s* is the delay of the most overdue lane that is not asleep, in seconds, or 0 if none is overdue.
    *asleep* has the paused and suspended lanes with deliveries to expire. *blocked* has the lanes that have been
    blocked longest, at most 200. *watched* has at most 200 lanes of topics with metrics for each subscription.
    """

    restarted: int = 0
    oldest_overdue_s: float = 0.0
    asleep: list[Lane] = field(default_factory=list)
    blocked: list[Lane] = field(default_factory=list)
    watched: list[Lane] = field(default_factory=list)

    def absorb(self, other: FoundLanes) -> None:
        """Add the lanes of *other*. Keep at most 200 lanes in *watched* and in *blocked*.

        *blocked* keeps the lanes with the oldest generations, because these have been blocked longest.
        """
        self.restarted += other.restarted
        self.oldest_overdue_s = max(self.oldest_overdue_s, other.oldest_overdue_s)
        self.asleep += other.asleep
        self.watched = (self.watched + other.watched)[:HEADS_MAX]
        self.blocked = nsmallest(HEADS_MAX, self.blocked + other.blocked, key=lambda lane: lane.generation)


async def wake_lanes(world: World, ends: float) -> FoundLanes:
    """Restart each overdue lane that is not asleep, under a new generation, until *ends* (monotonic).

    Returns all lanes found.
    """
    lanes = FoundLanes()
    for found in await each(world, "a shard of lanes", range(WAKE_SHARDS), partial(_shard, world, ends)):
        lanes.absorb(found)
    lanes.asleep.sort(key=lambda lane: lane.wake_at or 0)
    return lanes


async def _shard(world: World, ends: float, shard: int) -> FoundLanes:
    """Read one shard of the index, page by page."""
    lanes, seen, last = FoundLanes(), 0, None
    while seen < LANES_MAX and world.clock.monotonic() < ends:
        page = await world.executor.run(world.store.lanes_to_wake, shard, LANES_PAGE, after=last)
        for found in await each(world, "a lane", page, partial(_look_at, world)):
            lanes.absorb(found)
        if len(page) < LANES_PAGE:
            break
        seen, last = seen + len(page), page[-1]
    return lanes


async def _look_at(world: World, row: Row) -> FoundLanes:
    lane = LANES.value_of(row)
    found = await _look(world, lane)
    if lane.state is not LaneState.REMOVED and world.telemetry.watches(lane.topic):
        found.watched.append(lane)
    return found


async def _look(world: World, indexed: Lane) -> FoundLanes:
    now = world.clock.now()
    if indexed.wake_at is not None and indexed.wake_at > now:
        return FoundLanes(blocked=_countable(indexed))
    lane = await world.executor.run(stored.lane, world.store, indexed.topic, indexed.subscription_id)
    if lane is None or lane.wake_at is None:
        return FoundLanes()
    if lane.wake_at > now:
        return FoundLanes(blocked=_countable(lane))
    if lane.state.is_asleep:
        return FoundLanes(asleep=[lane], blocked=_countable(lane))
    overdue_s = (now - lane.wake_at) / 1000
    if lane.wake_at > now - round(OVERDUE_GRACE_S * 1000 / min(world.time_scale, 5.0)):
        return FoundLanes(blocked=_countable(lane))
    restarted = await world.executor.run(lambda: _restart(world, lane, now))
    return FoundLanes(restarted, overdue_s, blocked=_countable(lane))


def _countable(lane: Lane) -> list[Lane]:
    """Return the lane, or nothing if its head does not count as blocked: a pause is deliberate, a deletion final."""
    return [] if lane.state in (LaneState.PAUSED, LaneState.REMOVED) else [lane]


def _restart(world: World, lane: Lane, now: int) -> int:
    generation = world.dice.unique_id(now)
    try:
        world.store.write(restart(lane, generation))
    except ConditionLostError:
        return 0
    world.workflow.start(lane.topic, lane.subscription_id, generation)
    return 1


@dataclass(frozen=True, slots=True)
class BacklogSummary:
    """The part of a backlog that was read: its length, and the age of its oldest delivery in seconds.

    *expiring* is the number of deliveries that expire within an hour.
    """

    backlog: int = 0
    expiring: int = 0
    oldest_s: float = 0.0


async def read_backlogs(world: World, lanes: Sequence[Lane]) -> BacklogSummary:
    """Return one summary of the backlogs of *lanes*. At most :data:`COUNTED_MAX` deliveries of each backlog are read.

    Under INDEPENDENT_RETRY the oldest of these may be behind the head.
    """
    found = await each(world, "a backlog", lanes, lambda lane: world.executor.run(_read_backlog, world, lane))
    return BacklogSummary(
        sum(one.backlog for one in found),
        sum(one.expiring for one in found),
        max((one.oldest_s for one in found), default=0.0),
    )


async def record_watched(world: World, lanes: Sequence[Lane]) -> None:
    """Record backlog metrics for each of *lanes*, under the name of its subscription."""

    def record(lane: Lane) -> None:
        ordinal = ordinal_of(lane.subscription_id)
        name = stored.subscription_name(world.store, lane.topic, ordinal)
        if name is not None:
            pending = _read_backlog(world, lane)
            values = {
                "Backlog": pending.backlog,
                "ExpiringWithinHour": pending.expiring,
                "OldestPendingSeconds": pending.oldest_s,
            }
            world.telemetry.record_subscription(lane.topic, ordinal, name, values)

    await each(world, "a watched lane", lanes, lambda lane: world.executor.run(record, lane))


def _read_backlog(world: World, lane: Lane) -> BacklogSummary:
    dues, now = stored.dues(world.store, lane.subscription_id, limit=COUNTED_MAX), world.clock.now()
    soon = now + round(SOON_S * 1000 / world.time_scale)
    oldest_s = max(((now - due.accepted_at) / 1000 for due in dues), default=0.0)
    return BacklogSummary(len(dues), sum(due.expires_at <= soon for due in dues), oldest_s)
