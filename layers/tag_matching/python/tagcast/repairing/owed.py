"""What lanes that are not active owe, as operators are told of it: how much, for how long, and what is soon over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tagcast.concurrency.isolation import each
from tagcast.ids import ordinal_of
from tagcast.ports import World
from tagcast.rows import stored
from tagcast.rows.lane import Lane

SOON_S = 3_600
"""What has less than this to live is told of as expiring."""
COUNTED_MAX = 500
"""A backlog is counted up to 500 deliveries from its head."""


@dataclass(frozen=True, slots=True)
class Owed:
    """Deliveries of a backlog, as far as it was read: how many, those that expire soon, and the age of the oldest."""

    backlog: int = 0
    expiring: int = 0
    oldest_s: float = 0.0


async def owed_by_all(world: World, lanes: Sequence[Lane]) -> Owed:
    """Return what *lanes* owe together; a backlog whose head does not expire soon is not read any further."""

    async def read(lane: Lane) -> Owed:
        head = await world.executor.run(partial(_owed, world, lane, 1))
        return await world.executor.run(partial(_owed, world, lane, COUNTED_MAX)) if head.expiring else head

    found = await each(world, "a head", lanes, read)
    return Owed(
        sum(one.backlog for one in found),
        sum(one.expiring for one in found),
        max((one.oldest_s for one in found), default=0.0),
    )


async def tell_watched(world: World, lanes: Sequence[Lane]) -> None:
    """Tell operators what each of *lanes* owes, under the name of its subscription."""

    def tell(lane: Lane) -> None:
        ordinal = ordinal_of(lane.subscription_id)
        name = stored.subscription_name(world.store, lane.topic, ordinal)
        if name is not None:
            owed = _owed(world, lane, COUNTED_MAX)
            values = {"Backlog": owed.backlog, "ExpiringWithinHour": owed.expiring, "OldestOwedSeconds": owed.oldest_s}
            world.telemetry.owes(lane.topic, ordinal, name, values)

    await each(world, "a watched lane", lanes, lambda lane: world.executor.run(partial(tell, lane)))


def _owed(world: World, lane: Lane, limit: int) -> Owed:
    dues, now = stored.dues(world.store, lane.subscription_id, limit=limit), world.clock.now()
    soon = now + round(SOON_S * 1000 / world.time_scale)
    oldest_s = max(((now - due.accepted_at) / 1000 for due in dues), default=0.0)
    return Owed(len(dues), sum(due.expires_at <= soon for due in dues), oldest_s)
