"""The rate of a subscription: attempts are given away one after the other, to whichever process asks.

See docs/protocol.md, Pushing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from tagcast.concurrency.contention import TRIES_MAX, pause_s
from tagcast.errors import ConditionLostError
from tagcast.ports import World
from tagcast.rows.rate import RATE_ROWS, free_update

SECOND_US = 1_000_000
HORIZON_S = 2.0
"""Attempts are given away at most 2 s ahead, because the invocation that takes them waits for the last of them."""
RATE = "rate"
"""Why a delivery waits that was not attempted because of its subscription's rate."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave for *count* attempts, the first at *start_us* at the earliest, each *gap_us* after the one before.

    Instants are in microseconds since 1970. *free_us* is when an attempt is free that nobody took yet.
    """

    count: int
    start_us: int
    gap_us: float
    free_us: int

    @property
    def free_at(self) -> int:
        """Return the next free instant in milliseconds, not before it."""
        return -(-self.free_us // 1000)

    def wait_s(self, place: int, now: int) -> float:
        """Return how long to wait at *now* for the attempt in this *place*, the first being 0.

        >>> Permit(2, 1_000_000, 500_000.0, 2_000_000).wait_s(1, 1_200)
        0.3
        """
        return max(0.0, self.start_us + place * self.gap_us - now * 1000) / SECOND_US


def permitted(known: int | None, now: int, wanted: int, per_second: float) -> Permit:
    """Return how many of *wanted* attempts begin within the horizon, if those before are given away until *known*.

    >>> permitted(None, 1_000, 10, 2.0)
    Permit(count=5, start_us=1000000, gap_us=500000.0, free_us=3500000)
    >>> permitted(9_000_000, 1_000, 10, 2.0).count
    0
    """
    gap_us = SECOND_US / per_second
    start_us = max(known or 0, now * 1000)
    left_us = now * 1000 + HORIZON_S * SECOND_US - start_us
    count = 0 if left_us < 0 else min(wanted, math.floor(left_us / gap_us) + 1)
    return Permit(count, start_us, gap_us, start_us + math.ceil(count * gap_us))


async def take(world: World, subscription_id: str, per_second: float, wanted: int) -> Permit:
    """Take up to *wanted* attempts of a subscription that has a rate.

    Nothing is permitted while others are faster again and again.
    """
    sid, run = subscription_id, world.executor.run
    for lost in range(1, TRIES_MAX + 1):
        rate = await run(partial(RATE_ROWS.read, world.store, sid))
        known = None if rate is None else rate.free_us
        permit = permitted(known, world.clock.now(), wanted, per_second * world.time_scale)
        if not permit.count:
            return permit
        try:
            await run(partial(world.store.write, free_update(sid, known, permit.free_us)))
        except ConditionLostError:
            await world.clock.pause(pause_s(world, lost))
        else:
            return permit
    now_us = world.clock.now() * 1000
    return Permit(0, now_us, 0.0, now_us)
