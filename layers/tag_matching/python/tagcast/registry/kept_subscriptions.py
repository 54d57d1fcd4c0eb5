"""The subscriptions of a large topic in one object, beside the table.

A process that knows nothing of the topic loads it and reads only what changed since: the rows of 100,000 subscriptions
are some ten thousand read units of one key, which gives 3,000 a second to all processes together.
See docs/architecture.md, Hot keys.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

from tagcast.model import Subscription, Topic
from tagcast.ports import World
from tagcast.rows.registry import subscription_of, subscription_row

KEPT_MIN = 1_000
"""A topic with fewer subscriptions is read sooner than an object is."""
FORMAT = "tagcast-subscriptions-1"
LINE = 500
"""So many subscriptions are taken apart at once, or the text of all of them would have to fit into memory twice."""


def load(world: World, topic: Topic) -> tuple[int, list[Subscription]] | None:
    """Return a version of *topic* and its subscriptions then; None for a small topic, or if nothing usable is kept."""
    if topic.subscription_count < KEPT_MIN:
        return None
    content = world.index_archive.load(_name(topic))
    if content is None:
        return None
    try:
        form, *lines = zlib.decompress(content).splitlines()
        name, version = json.loads(form)
        found = [subscription_of(row) for line in lines for row in json.loads(line)]
    except (zlib.error, ValueError, KeyError, TypeError):  # Another release wrote it: read the table.
        return None
    return (version, found) if name == FORMAT else None


def save(world: World, topic: Topic, subscriptions: Sequence[Subscription]) -> None:
    """Keep all *subscriptions* of a large *topic* as they were at its version; none while a secret is not sealed."""
    if topic.subscription_count < KEPT_MIN or any(each.settings.secret is not None for each in subscriptions):
        return
    lines = [json.dumps([FORMAT, topic.subscriptions_version])]
    for start in range(0, len(subscriptions), LINE):
        lines.append(json.dumps([subscription_row(each) for each in subscriptions[start : start + LINE]]))
    world.index_archive.save(_name(topic), zlib.compress("\n".join(lines).encode(), level=1))


def _name(topic: Topic) -> str:
    return f"{topic.topic_id}/subscriptions"
