"""Loads or builds the index of a topic version. A large index is built in parts (docs/protocol.md, Wide messages)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from tagcast.errors import UnavailableError
from tagcast.filters.index import parted_index
from tagcast.filters.index.changed_index import Index
from tagcast.filters.index.parted_index import IndexPart, parts_of
from tagcast.filters.index.topic_index import SnapshotError, TopicIndex
from tagcast.model import Subscription, Topic
from tagcast.ports import World
from tagcast.registry import kept_subscriptions

ARCHIVED_SUBSCRIPTIONS_MIN = 200
"""With fewer subscriptions, compiling is faster than a request to the archive, unless their filters are large."""
EFFORT_MAX = 3_000_000
"""About half a second of CPU time. An index of more effort is built in parts of at most this effort."""
BUILD_FOR_S = 8.0
"""A publish starts no further part of an index after this time, because its request needs an answer."""


@dataclass(slots=True)
class Building:
    """An unfinished index, which this process builds in several requests, because one request is too short.

    *name* is the name of the index in the archive. *parts* are all its parts; *snapshots* has the finished ones by
    digest.
    """

    name: str
    parts: list[IndexPart]
    snapshots: dict[str, bytes] = field(default_factory=dict)


class Buildings(dict[str, Building]):
    """The unfinished indexes of this process, by topic id."""


def index_of(world: World, topic: Topic, by_ordinal: Mapping[int, Subscription], digest: str | None = None) -> Index:
    """Return the index of the filters of *by_ordinal*, the subscriptions of *topic* at its version.

    A small index is built. A large one is loaded from the archive, or built and stored there. *digest* identifies the
    stored copy from which the subscriptions were read; None if they were not read from a copy. A copy may contain
    changes newer than its version, so its index is stored by digest, not by version. Raises UnavailableError if the
    build takes too long; the next request continues with the parts built so far.
    """
    if len(by_ordinal) < ARCHIVED_SUBSCRIPTIONS_MIN:
        filters = kept_subscriptions.filters(by_ordinal)
        if len(parts_of(filters, EFFORT_MAX)) <= 1:
            return TopicIndex.build(filters)
    until = world.clock.monotonic() + BUILD_FOR_S / world.time_scale
    kept = f"{topic.subscriptions_version:012d}.json" if digest is None else f"kept/{digest}.json"
    name = f"{topic.topic_id}/{kept}"
    content = world.index_archive.load(name)
    if content is not None:
        with suppress(SnapshotError):  # A snapshot of another format: build it again.
            return parted_index.from_snapshot(content)
    buildings = world.memory.of(Buildings)
    building = buildings.pop(topic.topic_id, None)
    if building is None or building.name != name:
        building = Building(name, parts_of(kept_subscriptions.filters(by_ordinal), EFFORT_MAX))
    if len(building.parts) == 1:
        index = TopicIndex.build(building.parts[0].filters)
        world.index_archive.save(name, index.to_snapshot())
        return index
    if not _go_on(world, topic, building, until):
        buildings[topic.topic_id] = building
        raise UnavailableError(f"the filters of topic {topic.name} are being indexed; try again")
    content = parted_index.join_snapshots([building.snapshots[part.digest] for part in building.parts])
    world.index_archive.save(name, content)
    return parted_index.from_snapshot(content)


def _go_on(world: World, topic: Topic, building: Building, until: float) -> bool:
    """Load stored parts, and build missing parts until *until*, at least one. Return whether all parts are present.

    Each process begins with a random part, so that simultaneous publishers build different parts.
    """
    snapshots, count = building.snapshots, len(building.parts)
    first, is_over = int(world.dice.uniform(0, count)), False
    for place in range(first, first + count):
        part = building.parts[place % count]
        name = f"{topic.topic_id}/parts/{part.digest}"
        if part.digest in snapshots:
            continue
        content = world.index_archive.load(name)
        if content is not None and _is_readable(content):
            snapshots[part.digest] = content
        elif not is_over:
            snapshots[part.digest] = content = TopicIndex.build(part.filters).to_snapshot()
            world.index_archive.save(name, content)
            is_over = world.clock.monotonic() >= until
    return len(snapshots) == count


def _is_readable(content: bytes) -> bool:
    try:
        TopicIndex.from_snapshot(content)
    except SnapshotError:
        return False
    return True
