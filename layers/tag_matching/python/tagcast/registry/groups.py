"""Pull groups as the registry makes them: what is fixed once one is made, its secret, its queue."""

from __future__ import annotations

from dataclasses import replace

from tagcast.errors import ConflictError
from tagcast.model import Subscription, SubscriptionSettings
from tagcast.ports import GroupQueue, World


def with_secret(world: World, settings: SubscriptionSettings, known: Subscription | None) -> SubscriptionSettings:
    """Return *settings*, those of a group with the secret that *known* has, or a new one for a new group.

    Raises ConflictError when *known* would become a group, or none any more, or be ordered otherwise: its
    queue holds what it is owed.
    """
    if known is not None:
        kept = known.settings
        if settings.is_group is not kept.is_group:
            raise ConflictError("a group stays one, and no other subscription becomes one: remove it first")
        if settings.ordered is not kept.ordered:
            raise ConflictError("whether a group is ordered cannot change: remove it first")
    if not settings.is_group:
        return settings
    return replace(settings, secret=world.dice.secret() if known is None else known.settings.secret)


def make_queue(world: World, group: Subscription) -> None:
    """Make the queue of a group that is about to be stored, or stored again; `sweep` removes one without a group."""
    world.group_queues.make(GroupQueue.of(group))
