"""What the sweep does for pull groups: it tells of the last member that was lost, and removes what is long silent.

Only what heartbeats made goes by itself; a group that somebody put, or changed since, stays until somebody removes it.
"""

from __future__ import annotations

from functools import partial

from tagcast.concurrency.isolation import each
from tagcast.errors import NotFoundError, PreconditionFailedError
from tagcast.membership import LIVENESS_S, Registration
from tagcast.ports import Row, World
from tagcast.registry.members import tell_lost
from tagcast.registry.subscriptions import delete_subscription
from tagcast.rows import stored
from tagcast.rows.member import REGISTRATIONS, registration_delete


async def remove_silent(world: World, ends: float) -> int:
    """Look at every group that heartbeats made until *ends*; return how many subscriptions were removed."""
    rows = await world.executor.run(partial(stored.registration_rows, world.store))

    async def look_at(row: Row) -> bool:
        if world.clock.monotonic() >= ends:
            return False
        return await world.executor.run(partial(_look_at, world, REGISTRATIONS.value_of(row)))

    return sum(await each(world, "a group", rows, look_at))


def _look_at(world: World, registration: Registration) -> bool:
    members = stored.members(world.store, registration.topic, registration.group)
    tell_lost(world, registration.topic, registration.group, members)
    seen_at = max((registration.renewed_at, *(each.seen_at for each in members if registration.is_of(each.client))))
    silence_s = max(registration.silence_s / world.time_scale, 2 * LIVENESS_S)
    if world.clock.now() < seen_at + silence_s * 1000:
        return False
    return _removed(world, registration)


def _removed(world: World, registration: Registration) -> bool:
    """Remove what a heartbeat made, unless somebody changed it since, or joins just now; say whether that was done."""
    forget = registration_delete(registration)
    try:
        delete_subscription(world, registration.topic, registration.subscription, registration.version, (forget,))
    except (NotFoundError, PreconditionFailedError):
        world.store.write(forget)
        return False
    return True
