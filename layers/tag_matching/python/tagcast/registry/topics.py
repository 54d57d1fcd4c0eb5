"""Use cases of topics: make, change, look at, list, remove."""

from __future__ import annotations

from dataclasses import replace

from tagcast.concurrency.contention import until_won
from tagcast.errors import ConflictError
from tagcast.model import Ordering, Topic
from tagcast.paging import Page
from tagcast.ports import World
from tagcast.registry.directory import Directories, read_topic
from tagcast.rows import stored
from tagcast.rows.listed import retained_of
from tagcast.rows.topic_writes import settings_update, topic_deletes, topic_puts

COUNTERS_LIFE_S = 4 * 366 * 86_400
"""Longer than the archive is kept by default (three years)."""


def put_topic(
    world: World, name: str, *, retention_s: int, body_bytes_max: int, ordering: Ordering
) -> tuple[Topic, bool]:
    """Create the topic or replace its settings; return it and whether it is new.

    Raises ConflictError when the ordering would change while anything is retained.
    """

    def attempt() -> tuple[Topic, bool]:
        known = stored.topic(world.store, name)
        now = world.clock.now()
        if known is None:
            return _create(world, name, retention_s, body_bytes_max, ordering, now), True
        if known.ordering is not ordering and retained_count(world, name):
            raise ConflictError("the ordering cannot change while messages are retained")
        changed = replace(
            known, retention_s=retention_s, body_bytes_max=body_bytes_max, ordering=ordering, updated_at=now
        )
        world.store.write(settings_update(changed))
        return changed, False

    return until_won(world, f"topic {name}", attempt)


def _create(world: World, name: str, retention_s: int, body_bytes_max: int, ordering: Ordering, now: int) -> Topic:
    counters = stored.counters(world.store, name)
    topic = Topic(
        name=name,
        topic_id=world.dice.unique_id(now),
        retention_s=retention_s,
        body_bytes_max=body_bytes_max,
        ordering=ordering,
        created_at=now,
        updated_at=now,
        subscriptions_version=counters.subscriptions_version,
        next_ordinal=counters.next_ordinal,
    )
    world.store.transact(topic_puts(topic))
    return topic


def get_topic(world: World, name: str) -> Topic:
    """Return the topic or raise NotFoundError."""
    return read_topic(world, name)


def list_topics(world: World, limit: int, cursor: str | None) -> Page[Topic]:
    """Return topics in order of their names, after *cursor*."""
    names = stored.topic_names(world.store, after=cursor or "", limit=limit + 1)
    return Page(stored.topics(world.store, names[:limit]), names[limit - 1] if len(names) > limit else None)


def delete_topic(world: World, name: str) -> None:
    """Remove the topic; ConflictError while it has subscriptions, NotFoundError if it is not there.

    Its counters stay for as long as receipts and the archive may name its ordinals, so that a later topic of that
    name uses none of them again.
    """

    def attempt() -> None:
        topic = read_topic(world, name)
        if topic.subscription_count:
            raise ConflictError(f"topic {name} still has {topic.subscription_count} subscriptions")
        world.store.transact(topic_deletes(topic, world.clock.now() // 1000 + COUNTERS_LIFE_S))

    until_won(world, f"topic {name}", attempt)
    world.memory.of(Directories).pop(name, None)


def retained_count(world: World, topic: str) -> int:
    """Return how many messages are owed after their first round and still alive."""
    now = world.clock.now()
    listed = map(retained_of, stored.retained_rows(world.store, topic))
    return sum(1 for message in listed if message.expires_at > now)
