"""Use cases of topics: make, change, look at, list, remove."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from tagcast.concurrency.contention import until_won
from tagcast.errors import ConflictError
from tagcast.model import Ordering, Topic
from tagcast.paging import Page
from tagcast.ports import ABSENT, Delete, Expectation, Put, Table, Update, World
from tagcast.registry.directory import Snapshots, read_topic
from tagcast.rows.keys import directory_key, grave_key, retained_key, topic_key
from tagcast.rows.registry import topic_of, topic_row

GRAVE_S = 4 * 366 * 86_400
"""Longer than the archive is kept by default (three years)."""


def put_topic(
    world: World, name: str, *, retention_s: int, body_bytes_max: int, ordering: Ordering
) -> tuple[Topic, bool]:
    """Create the topic or replace its settings; return it and whether it is new.

    Raises ConflictError when the ordering would change while anything is retained.
    """

    def attempt() -> tuple[Topic, bool]:
        row = world.store.get(topic_key(name))
        now = world.clock.now()
        if row is None:
            return _create(world, name, retention_s, body_bytes_max, ordering, now), True
        known = topic_of(row)
        if known.ordering is not ordering and retained_count(world, name):
            raise ConflictError("the ordering cannot change while messages are retained")
        settings = {
            "retention_s": retention_s,
            "body_bytes_max": body_bytes_max,
            "ordering": ordering.value,
            "updated_at": now,
        }
        world.store.write(Update(topic_key(name), settings, expect={"topic_id": known.topic_id}))
        changed = replace(
            known, retention_s=retention_s, body_bytes_max=body_bytes_max, ordering=ordering, updated_at=now
        )
        return changed, False

    return until_won(world, f"topic {name}", attempt)


def _create(world: World, name: str, retention_s: int, body_bytes_max: int, ordering: Ordering, now: int) -> Topic:
    grave = world.store.get(grave_key(name)) or {}
    topic = Topic(
        name=name,
        topic_id=world.dice.unique_id(now),
        retention_s=retention_s,
        body_bytes_max=body_bytes_max,
        ordering=ordering,
        created_at=now,
        updated_at=now,
        subscriptions_version=cast("int", grave.get("subscriptions_version", 0)),
        next_ordinal=cast("int", grave.get("next_ordinal", 0)),
    )
    world.store.transact(
        (
            Put(topic_key(name), topic_row(topic), {"pk": ABSENT}),
            Put(directory_key(name), {"topic_id": topic.topic_id}),
        )
    )
    return topic


def get_topic(world: World, name: str) -> Topic:
    """Return the topic or raise NotFoundError."""
    return read_topic(world, name)


def list_topics(world: World, limit: int, cursor: str | None) -> Page[Topic]:
    """Return topics in order of their names, after *cursor*."""
    after = "" if cursor is None else cursor + "\x00"
    rows = world.store.query(Table.REGISTRY, "TOPICS", sk_from=after, limit=limit + 1)
    names = [cast("str", row["sk"]) for row in rows]
    keys = [topic_key(name) for name in names[:limit]]
    found = world.store.get_many(keys)
    topics = tuple(topic_of(found[key]) for key in keys if key in found)
    return Page(topics, names[limit - 1] if len(names) > limit else None)


def delete_topic(world: World, name: str) -> None:
    """Remove the topic; ConflictError while it has subscriptions, NotFoundError if it is not there.

    Its counters stay for as long as receipts and the archive may name its ordinals, so that a later topic of that
    name uses none of them again.
    """

    def attempt() -> None:
        topic = read_topic(world, name)
        if topic.subscription_count:
            raise ConflictError(f"topic {name} still has {topic.subscription_count} subscriptions")
        as_read: Expectation = {"topic_id": topic.topic_id, "subscriptions_version": topic.subscriptions_version}
        counts = {
            "subscriptions_version": topic.subscriptions_version,
            "next_ordinal": topic.next_ordinal,
            "ttl": world.clock.now() // 1000 + GRAVE_S,
        }
        world.store.transact(
            (
                Delete(topic_key(name), as_read),
                Delete(directory_key(name)),
                Put(grave_key(name), counts),
            )
        )

    until_won(world, f"topic {name}", attempt)
    world.memory.of(Snapshots).pop(name, None)


def retained_count(world: World, topic: str) -> int:
    """Return how many messages are owed after their first round and still alive."""
    now = world.clock.now()
    rows = world.store.query(Table.MESSAGES, retained_key(topic, "").pk)
    return sum(1 for row in rows if cast("int", row["expires_at"]) > now)
