"""Rows of the history of filters: which one each version of a subscription had, and since when it was evaluated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tagcast.model import Subscription
from tagcast.rows.keys import version_key
from tagcast.rows.values import dense, number, optional_text, text
from tagcast.tables import Delete, Put, Row, Update


@dataclass(frozen=True, slots=True)
class FilterVersion:
    """One version of a subscription's filter; *since* is the first version of its topic that evaluated it."""

    version: int
    filter: Mapping[str, object] | None
    changed_at: int
    since: int
    ordinal: int
    name: str
    topic_id: str


def filter_version_of(row: Row) -> FilterVersion:
    """Return the filter version in a row."""
    filter_text = optional_text(row, "filter")
    return FilterVersion(
        version=number(row, "version"),
        filter=None if filter_text is None else json.loads(filter_text),
        changed_at=number(row, "changed_at"),
        since=number(row, "since"),
        ordinal=number(row, "ordinal"),
        name=text(row, "name"),
        topic_id=text(row, "topic_id"),
    )


def version_put(subscription: Subscription, since: int) -> Put:
    """Return the write of the version that *subscription* has, which publishes from version *since* on evaluate."""
    evaluated = subscription.settings.filter
    row: Row = {
        "name": subscription.name,
        "topic_id": subscription.topic_id,
        "ordinal": subscription.ordinal,
        "version": subscription.version,
        "changed_at": subscription.updated_at,
        "since": since,
        "filter": None if evaluated is None else json.dumps(evaluated, sort_keys=True),
    }
    return Put(version_key(subscription.topic, subscription.ordinal, subscription.version), dense(row))


def version_delete(topic: str, version: FilterVersion) -> Delete:
    """Return the write that forgets a version at once."""
    return Delete(version_key(topic, version.ordinal, version.version))


def version_expiry(topic: str, version: FilterVersion, ttl: int | None) -> Update:
    """Return the write after which a version goes at *ttl*, in seconds, if it is still there."""
    key = version_key(topic, version.ordinal, version.version)
    return Update(key, {"ttl": ttl}, (), {"version": version.version})
