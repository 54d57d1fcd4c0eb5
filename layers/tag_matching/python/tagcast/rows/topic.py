"""Rows of topics: settings and counters of each topic, the list of all topics, and the counters of deleted topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tagcast.model import Topic, TopicSettings
from tagcast.rows.codec import Codec, dense, list_part, named_part, row_format
from tagcast.rows.keys import counters_key, directory_key, topic_key
from tagcast.tables import ABSENT, Check, Delete, Expectation, Put, Update, Value, Write

RECENT_MAX = 10
COUNTS = ("subscription_count", "next_ordinal", "unindexed_characters", "filling_quota_until")
SETTINGS = Codec(TopicSettings)


TOPICS = row_format(
    topic_key,
    Codec(Topic, {"name": named_part("topic"), "settings": SETTINGS, "recent": list_part("recent")}),
)


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of a deleted topic. A new topic of this name continues them, so it reuses no version or ordinal.

    *filling_quota_until* limits the groups that get older messages (:func:`tagcast.registry.groups.count_filling`). The
    row expires at *ttl*, in seconds.
    """

    subscriptions_version: int = 0
    next_ordinal: int = 0
    filling_quota_until: int = 0
    ttl: int = 0


COUNTERS = row_format(counters_key, Codec(Counters))


def topic_puts(topic: Topic) -> tuple[Write, ...]:
    """Return the writes that create a topic. They fail if a topic of this name exists."""
    return (
        TOPICS.put(topic, topic.name, expect={"pk": ABSENT}),
        Put(directory_key(topic.name), {"topic_id": topic.topic_id}),
    )


def counters_delete(topic: str, known: Counters | None) -> Delete:
    """Return the write that deletes the counters of a deleted topic, because a new topic continues them.

    The write fails if a topic of this name was created or deleted after *known* was read. *known* is None if there were
    no counters.
    """
    if known is None:
        return Delete(counters_key(topic), {"pk": ABSENT})
    expect = {"subscriptions_version": known.subscriptions_version, "next_ordinal": known.next_ordinal}
    return Delete(counters_key(topic), expect)


def settings_update(known: Topic, changed: Topic) -> Update:
    """Return the write of the settings of *changed*.

    It fails if the topic was updated, deleted or created again after *known* was read.
    """
    row = {**SETTINGS.attributes(changed.settings), "updated_at": changed.updated_at}
    gone = tuple(name for name, value in row.items() if value is None)
    expect: Expectation = {"topic_id": known.topic_id, "updated_at": known.updated_at}
    return Update(topic_key(changed.name), dense(row), gone, expect)


def events_check(events_topic: str) -> Check:
    """Return the check that *events_topic* exists and has no events topic itself, so that no cycle arises."""
    return Check(topic_key(events_topic), {"topic": events_topic, "events_topic": ABSENT})


def change_update(owner: Topic, *names: str, after: Topic | None = None) -> Update:
    """Return the write to the topic *owner* that makes publishers read the subscriptions with these *names* again.

    It fails if any subscription changed after *owner* was read. *after* is the topic with its new counts, or None if
    the counts stay.
    """
    changes: dict[str, Value] = {**with_changes(owner, names)}
    if after is not None:
        counts = {name: (getattr(owner, name), getattr(after, name)) for name in COUNTS}
        changes.update({name: new for name, (old, new) in counts.items() if new != old})
    return Update(topic_key(owner.name), changes, expect=_as_read(owner))


def topic_deletes(topic: Topic, ttl: int) -> tuple[Write, ...]:
    """Return the writes that delete a topic and keep its counters until *ttl*, in seconds.

    They fail if the topic or a subscription changed after *topic* was read.
    """
    counters = Counters(topic.subscriptions_version, topic.next_ordinal, topic.filling_quota_until, ttl)
    return (
        Delete(topic_key(topic.name), {**_as_read(topic), "updated_at": topic.updated_at}),
        Delete(directory_key(topic.name)),
        COUNTERS.put(counters, topic.name),
    )


def _as_read(topic: Topic) -> Expectation:
    return {"topic_id": topic.topic_id, "subscriptions_version": topic.subscriptions_version}


def with_changes(topic: Topic, names: Sequence[str]) -> dict[str, int | Sequence[str]]:
    """Return the attributes of *topic*'s row that change when the subscriptions with these *names* change.

    Each change raises the version by one. The row keeps the names of the last ten changes. A publisher with a somewhat
    older version reads only the subscriptions with these names. Every publish reads this row anyway, and every change
    writes it, so the names cost no additional reads or writes.

    >>> topic = Topic("orders", "1", TopicSettings(), 0, 0, subscriptions_version=7, recent=("A",))
    >>> with_changes(topic, ("B", "C"))
    {'subscriptions_version': 9, 'recent': ['A', 'B', 'C']}
    """
    return {
        "subscriptions_version": topic.subscriptions_version + len(names),
        "recent": [*topic.recent, *names][-RECENT_MAX:],
    }


def names_changed(known: Topic, topic: Topic) -> frozenset[str] | None:
    """Return the names of subscriptions that changed between two versions of a topic, *known* and the newer *topic*.

    Return None if the topic was replaced, or if the newer row does not list all changes.

    >>> from dataclasses import replace
    >>> known = Topic("orders", "1", TopicSettings(), 0, 0, subscriptions_version=7)
    >>> names_changed(known, replace(known, subscriptions_version=8, recent=("A", "B")))
    frozenset({'B'})
    >>> names_changed(known, replace(known, subscriptions_version=10, recent=("A", "B"))) is None
    True
    """
    count = topic.subscriptions_version - known.subscriptions_version
    if known.topic_id != topic.topic_id or not 0 < count <= len(topic.recent):
        return None
    return frozenset(topic.recent[-count:])
