"""The writes of a topic's row and of what stands beside it: the list of all topics, the counters that outlive it."""

from __future__ import annotations

from dataclasses import dataclass

from tagcast.model import Topic
from tagcast.rows.keys import counters_key, directory_key, topic_key
from tagcast.rows.recent_changes import with_changes
from tagcast.rows.registry import topic_row
from tagcast.rows.values import optional_number
from tagcast.tables import ABSENT, Delete, Expectation, Put, Row, Update, Value, Write

SETTINGS = ("retention_s", "body_bytes_max", "ordering", "updated_at")


@dataclass(frozen=True, slots=True)
class Counters:
    """What outlives a removed topic, so that a later one of that name uses no version and no ordinal again."""

    subscriptions_version: int = 0
    next_ordinal: int = 0


def counters_of(row: Row | None) -> Counters:
    """Return the counters in a row; a name that no topic ever had begins at zero."""
    if row is None:
        return Counters()
    return Counters(optional_number(row, "subscriptions_version") or 0, optional_number(row, "next_ordinal") or 0)


def topic_puts(topic: Topic) -> tuple[Write, ...]:
    """Return the writes of a new topic, unless there is one of its name."""
    return (
        Put(topic_key(topic.name), topic_row(topic), {"pk": ABSENT}),
        Put(directory_key(topic.name), {"topic_id": topic.topic_id}),
    )


def settings_update(changed: Topic) -> Update:
    """Return the write of a topic's settings, unless another topic has its name by now."""
    row = topic_row(changed)
    settings = {name: row[name] for name in (*SETTINGS, "keep") if name in row}
    gone = () if "keep" in settings else ("keep",)
    return Update(topic_key(changed.name), settings, gone, {"topic_id": changed.topic_id})


def change_update(owner: Topic, *names: str, subscriptions: int = 0, ordinals: int = 0) -> Update:
    """Return the write that lets publishers read *names* again, unless any subscription changed since *owner* was read.

    *subscriptions* and *ordinals* are added to the topic's counts.
    """
    changes: dict[str, Value] = {**with_changes(owner, names)}
    if subscriptions:
        changes["subscription_count"] = owner.subscription_count + subscriptions
    if ordinals:
        changes["next_ordinal"] = owner.next_ordinal + ordinals
    return Update(topic_key(owner.name), changes, expect=_as_read(owner))


def topic_deletes(topic: Topic, ttl: int) -> tuple[Write, ...]:
    """Return the writes that remove a topic, unless its subscriptions changed; its counters stay until *ttl*."""
    counts = {"subscriptions_version": topic.subscriptions_version, "next_ordinal": topic.next_ordinal, "ttl": ttl}
    return (
        Delete(topic_key(topic.name), _as_read(topic)),
        Delete(directory_key(topic.name)),
        Put(counters_key(topic.name), counts),
    )


def _as_read(topic: Topic) -> Expectation:
    return {"topic_id": topic.topic_id, "subscriptions_version": topic.subscriptions_version}
