"""Rows of the history of filters: which one each version of a subscription had, and since when it was evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tagcast.model import Subscription
from tagcast.rows.declaration import Beside, Declaration
from tagcast.rows.keys import version_key
from tagcast.tables import Delete, Put, Update


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


FILTER_VERSIONS = Declaration(
    FilterVersion,
    version_key,
    "one version of a filter, and since which version of the topic it is evaluated",
    "when there are 20 newer ones and it was replaced two days ago; 8 days after the removal",
    ttl=Beside(),
)


def version_put(subscription: Subscription, since: int) -> Put:
    """Return the write of the version that *subscription* has, which publishes from version *since* on evaluate."""
    version = FilterVersion(
        version=subscription.version,
        filter=subscription.settings.filter,
        changed_at=subscription.updated_at,
        since=since,
        ordinal=subscription.ordinal,
        name=subscription.name,
        topic_id=subscription.topic_id,
    )
    key = version_key(subscription.topic, subscription.ordinal, subscription.version)
    return Put(key, FILTER_VERSIONS.row_of(version))


def version_delete(topic: str, version: FilterVersion) -> Delete:
    """Return the write that forgets a version at once."""
    return Delete(version_key(topic, version.ordinal, version.version))


def version_expiry(topic: str, version: FilterVersion, ttl: int | None) -> Update:
    """Return the write after which a version goes at *ttl*, in seconds, if it is still there."""
    key = version_key(topic, version.ordinal, version.version)
    return Update(key, {"ttl": ttl}, (), {"version": version.version})
