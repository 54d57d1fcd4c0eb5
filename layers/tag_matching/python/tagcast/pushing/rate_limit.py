"""The rate limit of a subscription (docs/protocol.md, Pushing): permits in sequence, shared by all processes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tagcast.concurrency.contention import TRIES_MAX, pause_s
from tagcast.errors import ConditionLostError, TableThrottledError
from tagcast.ports import World
from tagcast.rows.rate import RATE_ROWS, free_update

SECOND_US = 1_000_000
HORIZON_S = 2.0
"""Permits are given at most 2 s ahead, because the invocation waits for its last permit."""
SKEW_S = 60.0
"""A permit further than this beyond the horizon does not count, because it comes from a wrong clock."""
RATE = "rate"
"""The outcome of a delivery that waits for its subscription's rate."""


@dataclass(frozen=True, slots=True)
class Permit:
    """A permit for *count* attempts, the first at *start_us* or later, each *gap_us* after the previous one.

    Instants are in microseconds since 1970. The next permit may begin at *free_us*.
    """

    count: int
    start_us: int
    gap_us: float
    free_us: int

    @property
    def free_at(self) -> int:
        """The instant at which the next permit may begin, in milliseconds, rounded up."""
        return -(-self.free_us // 1000)

    def wait_s(self, place: int, now: int) -> float:
        """Return how many seconds the attempt with index *place* (from 0) must still wait at the instant *now* (ms).

        >>> Permit(2, 1_000_000, 500_000.0, 2_000_000).wait_s(1, 1_200)
        0.3
        """
        return max(0.0, self.start_us + place * self.gap_us - now * 1000) / SECOND_US


def plan_permit(known: int | None, now: int, wanted: int, per_second: float) -> Permit:
    """Return a permit for up to *wanted* attempts, as many as may start in the next two seconds at *per_second*.

    *known* is the first instant without a permit (microseconds); None if no permit was given. *now* is in milliseconds.

    >>> plan_permit(None, 1_000, 10, 2.0)
    Permit(count=5, start_us=1000000, gap_us=500000.0, free_us=3500000)
    >>> plan_permit(9_000_000, 1_000, 10, 2.0).count
    0
    """
    gap_us = SECOND_US / per_second
    horizon_us = now * 1000 + HORIZON_S * SECOND_US
    is_wrong = known is None or known > horizon_us + gap_us + SKEW_S * SECOND_US
    start_us = now * 1000 if known is None or is_wrong else max(known, now * 1000)
    left_us = horizon_us - start_us
    count = 0 if left_us < 0 else min(wanted, math.floor(left_us / gap_us) + 1)
    return Permit(count, start_us, gap_us, start_us + math.ceil(count * gap_us))


async def take_permit(world: World, subscription_id: str, per_second: float, wanted: int) -> Permit:
    """Take a permit for up to *wanted* attempts.

    The *count* of the permit is 0 if no attempt may start soon, or after throttling or repeated conflicts.
    """
    sid, run = subscription_id, world.executor.run
    for lost in range(1, TRIES_MAX + 1):
        rate = await run(RATE_ROWS.read, world.store, sid)
        known = None if rate is None else rate.free_us
        permit = plan_permit(known, world.clock.now(), wanted, per_second * world.time_scale)
        if not permit.count:
            return permit
        try:
            await run(world.store.write, free_update(sid, known, permit.free_us))
        except TableThrottledError:
            break
        except ConditionLostError:
            await world.clock.pause(pause_s(world, lost))
        else:
            return permit
    now_us = world.clock.now() * 1000
    return Permit(0, now_us, 0.0, now_us)
