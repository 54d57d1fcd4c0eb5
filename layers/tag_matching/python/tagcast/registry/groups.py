"""Pull groups as the registry makes them: what is fixed once one is made, its secret, its queue."""

from __future__ import annotations

from dataclasses import replace

from tagcast.errors import ConflictError
from tagcast.model import LaneState, Subscription, SubscriptionSettings, Topic
from tagcast.ports import GroupQueue, World
from tagcast.rows.lane import Filling, Lane

PUBLISHED_S = 60
"""60 s after a group is made, every publish that did not know of it has ended, and so has the call that makes it."""


def with_secret(world: World, settings: SubscriptionSettings, known: Subscription | None) -> SubscriptionSettings:
    """Return *settings*, those of a group with the secret that *known* has, or a new one for a new group.

    Raises ConflictError when *known* would become a group, or none any more, or be ordered otherwise: its
    queue holds what it is owed.
    """
    if known is not None:
        kept = known.settings
        if settings.is_group is not kept.is_group:
            raise ConflictError(
                "a subscription cannot become a group, nor a group another subscription: delete it first"
            )
        if settings.ordered is not kept.ordered:
            raise ConflictError("the order of a group cannot change: delete the group first")
    if not settings.is_group:
        return settings
    return replace(settings, secret=world.dice.secret() if known is None else known.settings.secret)


def make_queue(world: World, group: Subscription) -> None:
    """Make the queue of a group that is about to be stored, or stored again; `sweep` removes one without a group."""
    world.group_queues.make(GroupQueue.of(group))


def lane_to_fill(world: World, owner: Topic, group: Subscription) -> Lane | None:
    """Return the lane of a new *group* of *owner* that gets what was accepted before it; None if it gets nothing.

    Its worker adds that to the backlog before anything is handed over, so that all comes in its order.
    """
    start_from = group.settings.start_from
    if start_from is None:
        return None
    now = world.clock.now()
    begins_at = now + round(PUBLISHED_S * 1000 / world.time_scale)
    # An earlier topic of that name may have left messages that were kept: they are none of this one.
    accepted_from = max(start_from, owner.created_at)
    return Lane(
        topic=group.topic,
        subscription_id=group.subscription_id,
        state=LaneState.BLOCKED,
        generation=world.dice.unique_id(now),
        appended=1,
        claim=0,
        next_attempt_at=begins_at,
        wake_at=begins_at,
        filling=Filling(owner.subscriptions_version + 1, accepted_from, begins_at),
    )
