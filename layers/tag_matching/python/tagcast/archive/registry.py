"""Records of the Registry table: versions of topics, subscriptions and filters, never a secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from urllib.parse import urlsplit

from tagcast.archive.record import Field, Record, RecordKind, RowChange, record, split_columns
from tagcast.model import Endpoint, Protocol, Subscription, SubscriptionSettings
from tagcast.rows.subscription import FILTER_VERSIONS, SETTINGS, SUBSCRIPTIONS
from tagcast.rows.topic import SETTINGS as TOPIC_SETTINGS
from tagcast.rows.topic import TOPICS
from tagcast.tables import Row

_LEFT_OUT = {each.name for each in fields(SubscriptionSettings) if not each.repr} | {"sealed"}
"""The settings that are not archived: secrets, and the reference to sealed secrets."""
_COLUMNS = (
    *("filter", "protocol", "endpoint", "strategy", "max_retries", "interval_s", "interval_s_max", "timeout_s"),
    "start_from",
    "unverified",
)
"""The settings with columns of their own, because jobs read them. The column `settings` has all other settings."""


def of_topic(change: RowChange) -> Iterator[Record]:
    """Yield the settings of a topic when it is created or updated."""
    if change.after is None:
        return
    topic, before = TOPICS.value_of(change.after), change.before
    if before is not None and TOPICS.value_of(before).updated_at == topic.updated_at:
        return
    yield record(
        RecordKind.SUBSCRIPTIONS,
        f"{topic.topic_id}.{topic.updated_at}.topic",
        part="topic",
        topic=topic.name,
        topic_id=topic.topic_id,
        **split_columns(TOPIC_SETTINGS.attributes(topic.settings), ("ordering",), "settings"),
        changed_at=topic.updated_at,
    )


def of_subscription(change: RowChange) -> Iterator[Record]:
    """Yield one version of a subscription, or its deletion."""
    row = change.after or change.before
    assert row is not None
    subscription = SUBSCRIPTIONS.value_of(row)
    removed = change.after is None
    line = record(
        RecordKind.SUBSCRIPTIONS,
        f"{subscription.subscription_id}.{subscription.version}.{'removed' if removed else 'settings'}",
        part="removed" if removed else "settings",
        topic=subscription.topic,
        topic_id=subscription.topic_id,
        subscription=subscription.name,
        ordinal=subscription.ordinal,
        version=subscription.version,
        **_settings_fields(subscription),
        created_at=subscription.created_at,
        changed_at=change.changed_at if removed else subscription.updated_at,
    )
    yield replace(line, is_newly_unverified=not removed and _is_newly_unverified(subscription, change.before))


def _is_newly_unverified(subscription: Subscription, before: Row | None) -> bool:
    """Return whether the endpoint of *subscription* is unverified, and that of *before* was verified or another."""
    if subscription.settings.unverified is None or before is None:
        return subscription.settings.unverified is not None
    known = SUBSCRIPTIONS.value_of(before).settings
    return known.unverified is None or known.endpoint != subscription.settings.endpoint


def _settings_fields(subscription: Subscription) -> dict[str, Field]:
    """Return the settings of a subscription, without secrets."""
    endpoint = subscription.settings.endpoint
    place = Endpoint(endpoint.protocol, _without_secrets(endpoint))
    chosen = SETTINGS.attributes(replace(subscription.settings, endpoint=place))
    shown = {"endpoint" if name == "target" else name: it for name, it in chosen.items() if name not in _LEFT_OUT}
    return split_columns(shown, _COLUMNS, "settings")


def _without_secrets(endpoint: Endpoint) -> str:
    """Return the address of an endpoint. The user, path and query of a URL may be secrets and are left out.

    >>> _without_secrets(Endpoint(Protocol.HTTPS, "https://me:word@hooks.test:8443/T0/B1?token=x"))
    'https://hooks.test:8443'
    """
    if endpoint.protocol not in (Protocol.HTTP, Protocol.HTTPS):
        return endpoint.target
    parts = urlsplit(endpoint.target)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def of_filter_version(change: RowChange, topic: str) -> Iterator[Record]:
    """Yield a new version of a filter, with the first topic version that uses it. A deleted version has no record."""
    if change.after is None:
        return
    version = FILTER_VERSIONS.value_of(change.after)
    yield record(
        RecordKind.SUBSCRIPTIONS,
        f"{version.topic_id}.{version.ordinal}.{version.version}.filter",
        part="filter",
        topic=topic,
        topic_id=version.topic_id,
        subscription=version.name,
        ordinal=version.ordinal,
        version=version.version,
        filter=None if version.filter is None else json.dumps(version.filter, sort_keys=True),
        since=version.since,
        changed_at=version.changed_at,
    )
