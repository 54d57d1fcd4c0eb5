"""Deliveries that the service itself could not attempt: they stay owed, and no attempt is counted.

Such a delivery is never discarded for that; it ends by nothing but its life.
"""

from __future__ import annotations

from collections.abc import Sequence

from tagcast.model import Entry, EntryState, Outcome, PastAttempt, Subscription
from tagcast.ports import World
from tagcast.pushing.attempts import Delivery, Failure, Progress

PUT_OFF_S = 10
"""So long after the service could do nothing for a delivery it is tried again."""


def put_off(world: World, made: int, detail: str) -> Failure:
    """Return what comes of a delivery with *made* attempts that there could be no further one of just now."""
    now = world.clock.now()
    again_at = now + round(PUT_OFF_S * 1000 / world.time_scale)
    return Failure(made, now, Outcome(False, detail), again_at, PastAttempt(made, now, 0, detail))


def alive(
    world: World, subscription: Subscription, deliveries: Sequence[Delivery], progress: Progress, now: int
) -> list[Delivery]:
    """Return those of *deliveries* whose life is not over at *now*, and settle the others in *progress*.

    Whoever pushes them does not look at the clock in between: it may be set anew at any time.
    """
    waiting = []
    for message, made in deliveries:
        if message.is_expired(now):
            progress.settled[message.message_id] = Entry(EntryState.EXPIRED, made)
            world.telemetry.settled(message, subscription, EntryState.EXPIRED)
        else:
            waiting.append((message, made))
    return waiting
