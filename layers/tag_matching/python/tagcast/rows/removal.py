"""When subscriptions were removed: the rows that keep their names for receipts."""

from __future__ import annotations

from dataclasses import dataclass

from tagcast.model import Subscription
from tagcast.ports import World
from tagcast.rows.keys import name_key
from tagcast.rows.lane import Lane
from tagcast.rows.values import number
from tagcast.tables import Put, Row


@dataclass(frozen=True, slots=True)
class Removal:
    """When a subscription was removed; publishes at *until*, a version of its topic, or later do not see it."""

    removed_at: int
    until: int

    def precedes(self, subscriptions_version: int) -> bool:
        """Say whether a publish that saw *subscriptions_version* of the topic came too late for the subscription."""
        return self.until <= subscriptions_version


def removal(world: World, topic: str, ordinal: int) -> Removal | None:
    """Return when the subscription of *ordinal* was removed; None if it is there, or forgotten."""
    row = world.store.get(name_key(topic, ordinal))
    return None if row is None else Removal(number(row, "removed_at"), number(row, "until"))


def removal_put(subscription: Subscription, tombstone: Lane, subscriptions_version: int) -> Put:
    """Return the write that keeps the name of a removed subscription as long as its *tombstone*."""
    row: Row = {
        "name": subscription.name,
        "ordinal": subscription.ordinal,
        "removed_at": tombstone.next_attempt_at,
        "until": subscriptions_version,
        "ttl": tombstone.ttl,
    }
    return Put(name_key(subscription.topic, subscription.ordinal), row)
