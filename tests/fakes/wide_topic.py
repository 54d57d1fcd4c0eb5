"""A topic with very many subscriptions, stored as they are."""

from tagcast.model import RetryPolicy, Strategy, Subscription
from tagcast.registry.directory import read_topic
from tagcast.rows.keys import topic_key
from tagcast.rows.subscription import subscription_put

from tests.fakes.settings import settings_for
from tests.fakes.world import FakeWorld


def topic_with(count: int) -> FakeWorld:
    """Return a world with a topic that has so many subscriptions, each of which wants everything."""
    fake = FakeWorld()
    fake.topic("wide")
    topic = read_topic(fake.world, "wide")
    for ordinal in range(count):
        settings = settings_for(
            f"https://receiver-{ordinal}.example.com/hooks/orders",
            RetryPolicy(Strategy.EXPONENTIAL_DECAY_RETRY, 176),
            filter={"kind": "tags", "tags": ["order", f"region-{ordinal % 50}"]},
        )
        one = Subscription("wide", f"subscriber-{ordinal:06d}", topic.topic_id, ordinal, settings, 1, 1, 1)
        fake.store.write(subscription_put(one, None))
    counted = {"subscription_count": count, "next_ordinal": count, "subscriptions_version": count}
    fake.store.rows[topic_key("wide")].update(counted)
    return fake
