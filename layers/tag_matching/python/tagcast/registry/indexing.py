"""The index of one version of a topic: loaded where somebody built it before, else built, a large one part by part.

See docs/protocol.md, Wide messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from tagcast.errors import UnavailableError
from tagcast.filters.index import parted_index
from tagcast.filters.index.changed_index import Index
from tagcast.filters.index.parted_index import Part, parts_of
from tagcast.filters.index.topic_index import SnapshotError, TopicIndex
from tagcast.model import Subscription, Topic
from tagcast.ports import World
from tagcast.registry import kept_subscriptions

ARCHIVED_SUBSCRIPTIONS_MIN = 200
"""Below this many subscriptions, compiling is quicker than a request to the archive."""
EFFORT_MAX = 3_000_000
"""About half a second of a processor: what takes longer is built in parts, none of which takes more."""
BUILD_FOR_S = 8.0
"""A publish begins no further part of an index after this time, because its request has to be answered."""


@dataclass(slots=True)
class Building:
    """What a process has of the index *name*, which takes longer than one request."""

    name: str
    parts: list[Part]
    snapshots: dict[str, bytes] = field(default_factory=dict)


class Buildings(dict[str, Building]):
    """The indexes that this process did not finish, by the ids of their topics."""


def index_of(world: World, topic: Topic, by_ordinal: Mapping[int, Subscription], digest: str | None = None) -> Index:
    """Return the index of one version of a topic, from the archive when it is large and somebody built it before.

    What was kept of the topic may be newer in part than its version, and is named by its *digest*. Raises
    UnavailableError when it takes longer than a request may: who asks again goes on behind what was built.
    """
    if len(by_ordinal) < ARCHIVED_SUBSCRIPTIONS_MIN:
        return TopicIndex.build(kept_subscriptions.filters(by_ordinal))
    until = world.clock.monotonic() + BUILD_FOR_S / world.time_scale
    kept = f"{topic.subscriptions_version:012d}.json" if digest is None else f"kept/{digest}.json"
    name = f"{topic.topic_id}/{kept}"
    content = world.index_archive.load(name)
    if content is not None:
        with suppress(SnapshotError):  # It is of another format: build it anew.
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
    content = parted_index.joined([building.snapshots[part.digest] for part in building.parts])
    world.index_archive.save(name, content)
    return parted_index.from_snapshot(content)


def _go_on(world: World, topic: Topic, building: Building, until: float) -> bool:
    """Load what others built, and build parts until *until*, but one at least; say whether none is left.

    Each process begins elsewhere, so that many who publish at the same time do not build the same parts.
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
