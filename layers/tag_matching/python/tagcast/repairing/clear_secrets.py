"""What the sweep does for secrets that earlier releases stored in the rows of subscriptions: it has them sealed.

Every pass of the search looks at all subscriptions once. A release that is put back for a while may store some in clear
again, so that this is never over.
"""

from __future__ import annotations

from functools import partial

from tagcast.concurrency.isolation import each
from tagcast.errors import ConditionLostError
from tagcast.ports import Row, World
from tagcast.rows import stored, stored_secrets
from tagcast.rows.registry import subscription_of
from tagcast.sealing.secrets import seal_in_place
from tagcast.settings import has_secrets

TOPICS_AT_ONCE = 32


async def seal_clear(world: World, ends: float) -> int:
    """Seal the secrets that stand in clear, topic by topic until *ends*; return how many subscriptions had such."""
    sealed, after = 0, ""
    while world.clock.monotonic() < ends:
        read = partial(stored.topic_names, world.store, after=after, limit=TOPICS_AT_ONCE)
        topics = await world.executor.run(read)
        sealed += sum(await each(world, "secrets of a topic", topics, partial(_seal_all, world, ends)))
        if len(topics) < TOPICS_AT_ONCE:
            break
        after = topics[-1]
    return sealed


async def _seal_all(world: World, ends: float, topic: str) -> int:
    rows = await world.executor.run(partial(stored_secrets.subscription_rows, world.store, topic))

    async def seal(row: Row) -> bool:
        subscription = subscription_of(row)
        settings = subscription.settings
        if settings.is_group or not has_secrets(settings) or world.clock.monotonic() >= ends:
            return False
        try:
            await world.executor.run(partial(seal_in_place, world, subscription))
        except ConditionLostError:  # Whoever changed it wrote it as this release does.
            return False
        return True

    return sum(await each(world, "secrets of a subscription", rows, seal))
