"""The last changes of a topic's subscriptions, kept in the topic's row: who knows an older version reads only them.

The row is read for every publish and written for every change anyway, so that this costs neither reads nor writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tagcast.model import Topic
from tagcast.tables import Row

RECENT_MAX = 10


def recent_of(row: Row) -> tuple[str, ...]:
    """Return the names in a topic's row; none if a release that does not keep them made the last change."""
    if row.get("recent_until") != row["subscriptions_version"]:
        return ()
    return tuple(cast("Sequence[str]", row.get("recent", ())))


def with_change(topic: Topic, name: str) -> dict[str, int | Sequence[str]]:
    """Return what a change of subscription *name* writes to the row of *topic*: the next version and the names."""
    version = topic.subscriptions_version + 1
    names = [*topic.recent, name][-RECENT_MAX:]
    return {"subscriptions_version": version, "recent": names, "recent_until": version}


def names_changed(known: Topic, topic: Topic) -> frozenset[str] | None:
    """Return the subscriptions that changed between two versions of a topic; None if there were too many.

    >>> from dataclasses import replace
    >>> from tagcast.model import Ordering
    >>> known = Topic("orders", "1", 60, 1, Ordering.TOPIC, 0, 0, subscriptions_version=7)
    >>> names_changed(known, replace(known, subscriptions_version=8, recent=("A", "B")))
    frozenset({'B'})
    >>> names_changed(known, replace(known, subscriptions_version=10, recent=("A", "B"))) is None
    True
    """
    count = topic.subscriptions_version - known.subscriptions_version
    if known.topic_id != topic.topic_id or not 0 < count <= len(topic.recent):
        return None
    return frozenset(topic.recent[-count:])
