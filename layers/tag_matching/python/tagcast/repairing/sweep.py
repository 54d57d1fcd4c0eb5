"""The sweep: finds overdue work that no other function does any more, and repairs it.

Overdue lanes come first, because restarting them is quick; then all other parts run concurrently. An unreadable row
does not stop other work. The next sweep continues where this sweep stopped.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field, replace

from tagcast.concurrency.isolation import each
from tagcast.ports import World
from tagcast.repairing.expiry import expire_retained, expire_sleeping
from tagcast.repairing.overdue import BacklogSummary, FoundLanes, read_backlogs, record_watched, wake_lanes
from tagcast.repairing.relay import Sending, resend
from tagcast.repairing.removals import forget_exchanged, remove_orphans, remove_silent
from tagcast.repairing.search import search
from tagcast.rows.listed import SWEEP_ROWS, Progress

LANES_SHARE = 0.4
"""Restarting lanes takes at most 40 % of a sweep's time."""


@dataclass(slots=True)
class SweepResult:
    """The result of one sweep.

    *restarted* counts lanes, *expired* deliveries, and *sent* queue entries. *removed* counts the deleted subscriptions
    of groups without heartbeats. *oldest_overdue_s* is the delay of the most overdue lane. *backlogs* is the combined
    backlog of the lanes that have been blocked longest.
    """

    restarted: int = 0
    expired: int = 0
    sent: int = 0
    removed: int = 0
    oldest_overdue_s: float = 0.0
    backlogs: BacklogSummary = field(default_factory=BacklogSummary)
    progress: Progress = field(default_factory=Progress)
    """The progress, from which the next sweep continues."""


async def sweep(world: World, budget_s: float) -> SweepResult:
    """Sweep once, for at most about *budget_s* seconds."""
    begins = world.clock.monotonic()
    ends = begins + budget_s
    lanes = await wake_lanes(world, begins + budget_s * LANES_SHARE)
    swept = SweepResult(lanes.restarted, oldest_overdue_s=lanes.oldest_overdue_s)
    swept.progress = await world.executor.run(lambda: SWEEP_ROWS.read(world.store) or Progress())
    await each(world, "a part of the sweep", _parts(world, swept, lanes, ends), lambda part: part)
    if swept.expired:
        world.telemetry.count("Expired", swept.expired)
    swept.progress = replace(swept.progress, sweep_count=swept.progress.sweep_count + 1)
    await world.executor.run(world.store.write, SWEEP_ROWS.put(swept.progress))
    return swept


def _parts(world: World, swept: SweepResult, lanes: FoundLanes, ends: float) -> tuple[Coroutine[None, None, None], ...]:
    """Return the parts, which run concurrently. No part awaits within ``+=``, because others add meanwhile."""
    sending = Sending(world)

    async def record_heads() -> None:
        swept.backlogs = await read_backlogs(world, lanes.blocked)
        await record_watched(world, lanes.watched)

    async def send_again() -> None:
        sent = await resend(world, sending, ends)
        swept.sent += sent

    async def expire_lanes() -> None:
        expired = await expire_sleeping(world, lanes.asleep, ends)
        swept.expired += expired

    async def expire_topics() -> None:
        expired, topic = await expire_retained(world, swept.progress.topic, ends)
        swept.progress = replace(swept.progress, topic=topic)
        swept.expired += expired

    async def find_lost() -> None:
        before = swept.progress.search
        sent, expired, known = await search(world, sending, before, ends)
        swept.progress = replace(swept.progress, search=known)
        swept.sent += sent
        swept.expired += expired
        if known.began_at != before.began_at:
            await remove_orphans(world)

    async def remove_members() -> None:
        removed = await remove_silent(world, ends)
        swept.removed += removed

    return (
        record_heads(),
        send_again(),
        expire_lanes(),
        expire_topics(),
        find_lost(),
        remove_members(),
        forget_exchanged(world, ends),
    )
