"""What a worker does next with the backlog of its lane, as a plan: end, wait, attempt, or leave the lane empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from tagcast.model import LaneState, Subscription
from tagcast.ports import World
from tagcast.pushing.attempts import planned_at
from tagcast.rows.due import OwedDelivery
from tagcast.rows.lane import Lane


@dataclass(frozen=True, slots=True)
class Streak:
    """How the receiver did under the present claim.

    *answering* is False once the claimed head went without a success: what failed before keeps to its own schedule,
    as does a head that is another than the one the claim was planned for.
    *answered* is True once a push got through: until then only the head is tried. *got_through* is how many did
    together the last time that any were attempted.
    """

    answering: bool = True
    answered: bool = False
    got_through: int = 0


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing is owed: the lane becomes active, or its tombstone is left alone."""


@dataclass(frozen=True, slots=True)
class End:
    """These end without another push: nobody is subscribed any more, or an earlier push ended them."""

    dues: Sequence[OwedDelivery]


@dataclass(frozen=True, slots=True)
class Wait:
    """The head failed before, and is due at *until*: by its schedule, or because its receiver asked for that."""

    until: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """These are attempted for *subscription*, the head first."""

    subscription: Subscription
    dues: Sequence[OwedDelivery]


def front(dues: Sequence[OwedDelivery], now: int) -> list[OwedDelivery]:
    """Return what of the beginning of a backlog may be in flight together: a head that failed before is alone.

    A message stands in it once, where it stands first. It ends before what its receiver does not want yet.
    """
    if dues and dues[0].attempts:
        return list(dues[:1])
    wanted = list(takewhile(lambda due: now >= (due.not_before or 0), dues))
    return list({due.message_id: due for due in reversed(wanted)}.values())[::-1]


def next_step(
    world: World, lane: Lane, subscription: Subscription | None, dues: Sequence[OwedDelivery], streak: Streak
) -> Leave | End | Wait | Attempt:
    """Return what to do with *dues*, the front of the backlog of *lane* (None: nobody is subscribed any more)."""
    if not dues:
        return Leave()
    if subscription is None or lane.state is LaneState.REMOVED:
        return End(dues)
    ended = [due for due in dues if due.ended]
    if ended:
        return End(ended)
    head, now = dues[0], world.clock.now()
    if now < (not_before := min(head.not_before or 0, head.expires_at)):
        return Wait(not_before, head.message_id)
    is_its_turn = streak.answered or lane.planned_for in (None, head.message_id)
    if head.attempts and not (streak.answering and is_its_turn):
        due_at = min(planned_at(world, subscription, head.attempts, head.last_attempt_at or 0), head.expires_at)
        if now < due_at:
            return Wait(due_at, head.message_id)
    return Attempt(subscription, dues)
