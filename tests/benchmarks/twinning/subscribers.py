"""The topic of a cell with all its subscriptions, stored at once: who makes 100,000 of them is no part of the play."""

from __future__ import annotations

from dataclasses import replace

from tagcast.model import (
    Batching,
    Ordering,
    RetryPolicy,
    Strategy,
    Subscription,
    SubscriptionSettings,
)
from tagcast.ports import World
from tagcast.registry import topics
from tagcast.registry.directory import kept_directory_of
from tagcast.rows.keys import topic_key
from tagcast.rows.subscription import subscription_put, version_put
from tagcast.rows.topic import TOPICS
from tagcast.tables import Put
from tagcast.topic_settings import TopicSettings

from tests.benchmarks.harness import settings_for

BATCHING = Batching(100, 1024 * 1024)


def host_of(number: int) -> str:
    """Return the host of a subscriber's endpoint."""
    return f"s{number}.example"


def subscribe(
    world: World, topic: str, ordering: Ordering, count: int, *, batched: bool, conditions: bool = False
) -> None:
    """Store *topic* with *count* subscriptions, in order if the topic has one.

    They want everything, or each has a condition of its own.
    """
    made, _ = topics.put_topic(world, topic, TopicSettings(ordering=ordering))
    now = world.clock.now()
    for number in range(count):
        settings = _settings(f"http://{host_of(number)}/", ordering, batched=batched)
        if conditions:
            settings = replace(settings, filter={"kind": "sql92", "expression": _condition(number)})
        one = Subscription(topic, f"s{number}", made.topic_id, number, settings, 1, now, now)
        world.store.write(subscription_put(one, None))
        world.store.write(version_put(one, since=number + 1))
    subscribed = replace(made, subscriptions_version=count, subscription_count=count, next_ordinal=count)
    world.store.write(Put(topic_key(topic), TOPICS.row_of(subscribed)))
    kept_directory_of(world, topic).index.get()  # An earlier publish would have left it so, if it is large.


def _condition(number: int) -> str:
    """Return what a subscriber of its own kind asks of an order, in some 120 characters."""
    return (
        f"(total > {number} AND city = 'c{number % 50}') "
        f"OR customer IN ('c{number}', 'd{number}') AND NOT (product LIKE 'table {number % 97}%') AND total < 90000"
    )


def _settings(url: str, ordering: Ordering, *, batched: bool) -> SubscriptionSettings:
    strategy = Strategy.EXPONENTIAL_DECAY_RETRY if ordering is Ordering.NONE else Strategy.BACKOFF_RETRY
    return settings_for(url, RetryPolicy(strategy, 3), batching=BATCHING if batched else None)
