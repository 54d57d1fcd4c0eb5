"""A cache of subscription names by id. An id is never reused, so its name never changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tagcast.ids import ordinal_of, subscription_id, topic_id_of
from tagcast.ports import World
from tagcast.registry.subscribing import SUBSCRIPTIONS_MAX
from tagcast.rows import stored

NAMES_MAX = SUBSCRIPTIONS_MAX + 10_000
"""The most cached names: those of the largest topic, and 10,000 others, about 30 MB."""
ONE_BY_ONE_MAX = 100
"""If more names of a topic are unknown, all names of the topic are read, which may be many megabytes."""


class Names(dict[str, str]):
    """Names by subscription id."""


def subscription_name(world: World, topic: str, full_id: str) -> str | None:
    """Return the name of the subscription with the id *full_id*; None if the name is no longer stored."""
    return subscription_names(world, topic, topic_id_of(full_id), (ordinal_of(full_id),)).get(ordinal_of(full_id))


def subscription_names(world: World, topic: str, topic_id: str, ordinals: Collection[int]) -> Mapping[int, str]:
    """Return the names of a topic's subscriptions, by ordinal, as far as they are cached or stored."""
    found = kept_names(world, topic_id, ordinals)
    unknown = [ordinal for ordinal in ordinals if ordinal not in found]
    if len(unknown) > ONE_BY_ONE_MAX:
        read: Mapping[int, str | None] = stored.names(world.store, topic)
    else:
        read = {ordinal: stored.subscription_name(world.store, topic, ordinal) for ordinal in unknown}
    keep_names(world, topic_id, {ordinal: name for ordinal, name in read.items() if name is not None})
    return found | kept_names(world, topic_id, unknown)


def kept_names(world: World, topic_id: str, ordinals: Collection[int]) -> dict[int, str]:
    """Return the cached names of a topic's subscriptions, by ordinal."""
    known = world.memory.of(Names)
    found = ((ordinal, known.get(subscription_id(topic_id, ordinal))) for ordinal in ordinals)
    return {ordinal: name for ordinal, name in found if name is not None}


def keep_names(world: World, topic_id: str, names: Mapping[int, str]) -> None:
    """Cache the names of a topic's subscriptions."""
    known = world.memory.of(Names)
    if len(known) + len(names) > NAMES_MAX:
        known.clear()
    known.update({subscription_id(topic_id, ordinal): name for ordinal, name in names.items()})
