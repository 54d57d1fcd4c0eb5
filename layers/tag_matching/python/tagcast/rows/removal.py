"""When subscriptions were removed: the rows that keep their names for receipts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from tagcast.model import Message, Subscription
from tagcast.ports import World
from tagcast.rows.keys import name_key
from tagcast.rows.lane import Lane
from tagcast.rows.message import TOMBSTONE_S
from tagcast.tables import Put, Row


@dataclass(frozen=True, slots=True)
class Removal:
    """When a subscription was removed; publishes at *until*, a version of its topic, or later do not see it."""

    removed_at: int
    until: int | None

    def precedes(self, message: Message, subscriptions_version: int) -> bool:
        """Say whether a publish that saw *subscriptions_version* of the topic came too late for the subscription."""
        if self.until is None:
            return self.removed_at <= message.accepted_at
        return self.until <= subscriptions_version


def removal(world: World, topic: str, ordinal: int) -> Removal | None:
    """Return when the subscription of *ordinal* was removed; None if it is there, or forgotten.

    Rows of earlier releases say it by their time to live only, and name no version.
    """
    row = world.store.get(name_key(topic, ordinal))
    if row is None:
        return None
    removed_at = cast("int | None", row.get("removed_at"))
    if removed_at is None:
        removed_at = (cast("int", row["ttl"]) - TOMBSTONE_S) * 1000
    return Removal(removed_at, cast("int | None", row.get("until")))


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
