"""Pull groups in the registry: their fixed settings, their secret, their queue."""

from __future__ import annotations

from dataclasses import replace

from tagcast.errors import ConflictError
from tagcast.instant import rfc3339
from tagcast.model import LaneState, Subscription, SubscriptionSettings, Topic
from tagcast.ports import GroupQueue, World
from tagcast.rows.lane import Filling, Lane

PUBLISHED_S = 60
"""A group's creation, and every publish that read the topic before, has ended 60 s after the group's ``created_at``."""
FILLING_MAX = 10
FILLING_EVERY_S = 86_400 / FILLING_MAX
"""A topic fills at most 10 new groups at once, and one more every 2.4 h. Each filling reads all topics' messages."""


def with_secret(world: World, settings: SubscriptionSettings, known: Subscription | None) -> SubscriptionSettings:
    """Return *settings*. A group's settings get the secret of *known*, or a new secret if *known* is None.

    Raises ConflictError if *known* would become a group, stop being a group, or change its order. The pending messages
    of a group are in a queue that cannot change.
    """
    if known is not None:
        kept = known.settings
        if settings.is_group is not kept.is_group:
            raise ConflictError(
                "a group cannot become a push subscription, or the reverse: delete the subscription first"
            )
        if settings.ordered is not kept.ordered:
            raise ConflictError("the order of a group cannot change: delete the group first")
    if not settings.is_group:
        return settings
    return replace(settings, secret=world.dice.secret() if known is None else known.settings.secret)


def make_queue(world: World, group: Subscription) -> None:
    """Create the queue of *group*. Call this before the group is stored: `sweep` deletes a queue without a group."""
    world.group_queues.make(GroupQueue.of(group))


def count_filling(world: World, owner: Topic, settings: SubscriptionSettings) -> Topic:
    """Return the topic *owner* after the creation of a group with *settings*.

    If the group gets older messages (*start_from*), the topic's ``filling_quota_until`` moves by 2.4 hours. Raises
    ConflictError if this instant would be more than a day from now. So a topic can create ten such groups at once.
    """
    if settings.start_from is None:
        return owner
    now, step = world.clock.now(), round(FILLING_EVERY_S * 1000 / world.time_scale)
    until = max(owner.filling_quota_until, now) + step
    if until > now + FILLING_MAX * step:
        raise ConflictError(
            f"a topic creates at most {FILLING_MAX} groups at once with start_from: create this group after "
            f"{rfc3339(until - FILLING_MAX * step)}, or with start_from latest"
        )
    return replace(owner, filling_quota_until=until)


def lane_to_fill(world: World, owner: Topic, group: Subscription) -> Lane | None:
    """Return the lane of a new *group* of the topic *owner*; None if the group receives no older messages.

    The lane's worker first adds the older messages to the backlog, so that all messages come in order.
    """
    start_from = group.settings.start_from
    if start_from is None:
        return None
    now = world.clock.now()
    begins_at = now + round(PUBLISHED_S * 1000 / world.time_scale)
    # Kept messages of an earlier topic with this name do not belong to this one.
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
