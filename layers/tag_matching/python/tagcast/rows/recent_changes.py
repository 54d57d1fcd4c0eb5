"""The last changes of a topic's subscriptions, kept in the topic's row: who knows an older version reads only them.

The row is read for every publish and written for every change anyway, so that this costs neither reads nor writes.
"""

from __future__ import annotations

from collections.abc import Sequence

from tagcast.model import Topic

RECENT_MAX = 10


def with_changes(topic: Topic, names: Sequence[str]) -> dict[str, int | Sequence[str]]:
    """Return what a change of all *names* at once writes to the row of *topic*: the names, and a version for each.

    >>> from tagcast.model import Ordering
    >>> topic = Topic("orders", "1", 60, 1, Ordering.TOPIC, 0, 0, subscriptions_version=7, recent=("A",))
    >>> with_changes(topic, ("B", "C"))
    {'subscriptions_version': 9, 'recent': ['A', 'B', 'C']}
    """
    version = topic.subscriptions_version + len(names)
    return {"subscriptions_version": version, "recent": [*topic.recent, *names][-RECENT_MAX:]}


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
