"""All subscriptions of a large topic, read part by part: who has no time for the whole leaves it to the next.

See docs/protocol.md, Wide messages.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field, replace

from tagcast.errors import NotFoundError, UnavailableError
from tagcast.model import Topic
from tagcast.ports import World
from tagcast.registry import kept_subscriptions
from tagcast.registry.kept_subscriptions import Kept, packed, unpacked
from tagcast.rows import stored
from tagcast.rows.subscription import SUBSCRIPTIONS, KeptSubscription, KeptSubscriptions

READ_FOR_S = 3.0
"""A request that publishes reads a large topic for at most 3 s, because it has to be answered and to keep what it
read."""
READ_AT_ONCE = 1_000
FORMAT = "tagcast-reading-1"


@dataclass(slots=True)
class Reading:
    """What was read of *topic*, in order of names up to *place*, each at the topic's version or later.

    What is newer than that version is named by the changes of the topic since.
    """

    topic: Topic
    place: str = ""
    found: dict[str, KeptSubscription] = field(default_factory=dict)


class Readings(dict[str, Reading]):
    """What this process read of topics and did not finish, by their ids: perhaps nothing can be kept elsewhere."""


def read_on(world: World, topic: Topic, until_s: float) -> Kept:
    """Read and keep all subscriptions of *topic*, behind what was read before.

    Raises NotFoundError if the topic is gone, and UnavailableError if *until_s* on the monotonic clock comes before:
    who asks again goes on behind it.
    """
    readings = world.memory.of(Readings)
    reading = readings.pop(topic.topic_id, None) or _left(world, topic) or Reading(topic)
    rows = KeptSubscriptions()
    is_whole = False
    while not is_whole:
        present = stored.topic(world.store, topic.name)
        if present is None:
            raise NotFoundError("topic", topic.name)
        reading = _caught_up(world, reading, present, rows)
        part = stored.subscription_rows(world.store, topic.name, after=reading.place, limit=READ_AT_ONCE)
        reading.found |= {each.name: each for each in map(rows.of, part)}
        is_whole = len(part) < READ_AT_ONCE
        reading.place = stored.place(part[-1]) if part else reading.place
        if not is_whole and world.clock.monotonic() >= until_s:
            readings[topic.topic_id] = reading
            _leave(world, reading)
            raise UnavailableError(f"the subscriptions of topic {topic.name} are being read; try again")
    return kept_subscriptions.save(world, reading.topic, reading.found.values())


def forget(world: World, topic: Topic) -> None:
    """Forget what this process read of *topic*: it is kept as a whole."""
    world.memory.of(Readings).pop(topic.topic_id, None)


def _caught_up(world: World, reading: Reading, topic: Topic, rows: KeptSubscriptions) -> Reading:
    """Return *reading* as one of *topic*, which may have changed; one that begins anew if it changed too often."""
    if (topic.topic_id, topic.subscriptions_version) == (reading.topic.topic_id, reading.topic.subscriptions_version):
        return reading
    changes = stored.changes(world.store, reading.topic, topic)
    if changes is None:
        return Reading(topic)
    found = reading.found
    for name, changed in changes[0].items():
        found.pop(name, None)
        if changed is not None:
            found[name] = rows.of(SUBSCRIPTIONS.row_of(changed))
    return replace(reading, topic=topic)


def _leave(world: World, reading: Reading) -> None:
    """Leave what was read to the process that goes on."""
    head = json.dumps([FORMAT, reading.topic.subscriptions_version, reading.place])
    lines = (packed(head), packed(json.dumps(list(reading.found.values()))))
    world.index_archive.save(_name(reading.topic), b"\n".join(lines))


def _left(world: World, topic: Topic) -> Reading | None:
    """Return what others left of *topic*; None if that is nothing, or too old."""
    content = world.index_archive.load(_name(topic))
    if content is None:
        return None
    head, _, rest = content.partition(b"\n")
    try:
        form, version, place = json.loads(unpacked(head))
        found = [KeptSubscription(*each) for each in json.loads(unpacked(rest))] if form == FORMAT else []
    except (zlib.error, ValueError, TypeError):  # It is damaged, or of another format: read from the beginning.
        return None
    then = replace(topic, subscriptions_version=version)
    return Reading(then, place, {each.name: each for each in found}) if found else None


def _name(topic: Topic) -> str:
    return f"{topic.topic_id}/reading"
