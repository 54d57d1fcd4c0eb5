"""Reads all subscriptions of a large topic in parts, in several requests (docs/protocol.md, Wide messages)."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field, replace

from tagcast.errors import NotFoundError, UnavailableError
from tagcast.model import Topic
from tagcast.ports import World
from tagcast.registry import kept_subscriptions
from tagcast.registry.kept_subscriptions import StoredSubscriptions, pack_line, unpack_line
from tagcast.rows import stored
from tagcast.rows.subscription import SUBSCRIPTIONS, KeptSubscription, KeptSubscriptions

READ_FOR_S = 3.0
"""A publish reads a large topic for at most 3 s, because it must then store these subscriptions, and answer."""
READ_AT_ONCE = 1_000
FORMAT = "tagcast-reading-1"


@dataclass(slots=True)
class PartialRead:
    """The subscriptions of *topic* read so far, by name: all whose row has a sort key up to *place*.

    Each is at the version of *topic* or newer. The topic's row lists the newer ones as changes after this version.
    """

    topic: Topic
    place: str = ""
    found: dict[str, KeptSubscription] = field(default_factory=dict)


class PartialReads(dict[str, PartialRead]):
    """The unfinished reads of this process, by topic id. Each is also stored for other processes, if that succeeds."""


def read_on(world: World, topic: Topic, until_s: float) -> StoredSubscriptions:
    """Read all subscriptions of *topic* from where the last call stopped. Store a copy of them, and return it.

    Raises NotFoundError if the topic was deleted. Raises UnavailableError if subscriptions are left at *until_s*
    (monotonic); then the next call continues.
    """
    readings = world.memory.of(PartialReads)
    reading = readings.pop(topic.topic_id, None) or _load_partial(world, topic) or PartialRead(topic)
    rows = KeptSubscriptions()
    is_whole = False
    while not is_whole:
        present = stored.topic(world.store, topic.name)
        if present is None:
            raise NotFoundError("topic", topic.name)
        reading = _catch_up(world, reading, present, rows)
        part = stored.subscription_rows(world.store, topic.name, after=reading.place, limit=READ_AT_ONCE)
        reading.found |= {each.name: each for each in map(rows.of, part)}
        is_whole = len(part) < READ_AT_ONCE
        reading.place = stored.place(part[-1]) if part else reading.place
        if not is_whole and world.clock.monotonic() >= until_s:
            readings[topic.topic_id] = reading
            _store_partial(world, reading)
            raise UnavailableError(f"the subscriptions of topic {topic.name} are being read; try again")
    return kept_subscriptions.save(world, reading.topic, reading.found.values())


def forget(world: World, topic: Topic) -> None:
    """Drop this process's partial read of *topic*, because a complete copy is stored."""
    world.memory.of(PartialReads).pop(topic.topic_id, None)


def _catch_up(world: World, reading: PartialRead, topic: Topic, rows: KeptSubscriptions) -> PartialRead:
    """Return *reading* updated to *topic*, or an empty partial read if too much changed."""
    if (topic.topic_id, topic.subscriptions_version) == (reading.topic.topic_id, reading.topic.subscriptions_version):
        return reading
    changes = stored.changes(world.store, reading.topic, topic)
    if changes is None:
        return PartialRead(topic)
    found = reading.found
    for name, changed in changes[0].items():
        found.pop(name, None)
        if changed is not None:
            found[name] = rows.of(SUBSCRIPTIONS.row_of(changed))
    return replace(reading, topic=topic)


def _store_partial(world: World, reading: PartialRead) -> None:
    """Store the partial read for the next process."""
    head = json.dumps([FORMAT, reading.topic.subscriptions_version, reading.place])
    lines = (pack_line(head), pack_line(json.dumps(list(reading.found.values()))))
    world.index_archive.save(_name(reading.topic), b"\n".join(lines))


def _load_partial(world: World, topic: Topic) -> PartialRead | None:
    """Return the stored partial read of *topic*; None if there is no usable one."""
    content = world.index_archive.load(_name(topic))
    if content is None:
        return None
    head, _, rest = content.partition(b"\n")
    try:
        form, version, place = json.loads(unpack_line(head))
        found = [KeptSubscription(*each) for each in json.loads(unpack_line(rest))] if form == FORMAT else []
    except (zlib.error, ValueError, TypeError):  # Damaged, or of another format: read from the beginning.
        return None
    then = replace(topic, subscriptions_version=version)
    return PartialRead(then, place, {each.name: each for each in found}) if found else None


def _name(topic: Topic) -> str:
    return f"{topic.topic_id}/reading"
