"""Records of the Registry table: versions of topics, subscriptions and filters, never a secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

from tagcast.archive.record import Change, Record, RecordKind, record
from tagcast.model import Protocol
from tagcast.rows.filter_version import filter_version_of
from tagcast.rows.registry import subscription_of, topic_of


def of_topic(change: Change) -> Iterator[Record]:
    """Yield the settings of a topic whenever somebody puts them."""
    if change.after is None:
        return
    topic, before = topic_of(change.after), change.before
    if before is not None and topic_of(before).updated_at == topic.updated_at:
        return
    yield record(
        RecordKind.SUBSCRIPTIONS,
        f"{topic.topic_id}.{topic.updated_at}.topic",
        part="topic",
        topic=topic.name,
        topic_id=topic.topic_id,
        ordering=topic.ordering.value,
        retention_s=topic.retention_s,
        changed_at=topic.updated_at,
    )


def of_subscription(change: Change) -> Iterator[Record]:
    """Yield one version of a subscription, or that it was removed."""
    row = change.after or change.before
    assert row is not None
    subscription = subscription_of(row)
    removed = change.after is None
    yield record(
        RecordKind.SUBSCRIPTIONS,
        f"{subscription.subscription_id}.{subscription.version}.{'removed' if removed else 'settings'}",
        part="removed" if removed else "settings",
        topic=subscription.topic,
        topic_id=subscription.topic_id,
        subscription=subscription.name,
        ordinal=subscription.ordinal,
        version=subscription.version,
        filter=None if subscription.filter is None else json.dumps(subscription.filter, sort_keys=True),
        protocol=subscription.endpoint.protocol.value,
        endpoint=_without_secrets(subscription.endpoint.protocol, subscription.endpoint.target),
        strategy=subscription.retry.strategy.value,
        max_retries=subscription.retry.max_retries,
        interval_s=subscription.retry.interval_s,
        interval_s_max=subscription.retry.interval_s_max,
        timeout_s=subscription.timeout_s,
        content_format=subscription.content_format.value,
        created_at=subscription.created_at,
        changed_at=change.changed_at if removed else subscription.updated_at,
    )


def _without_secrets(protocol: Protocol, target: str) -> str:
    """Return where an endpoint is; the user, path and query of a URL may be secrets and are left out.

    >>> _without_secrets(Protocol.HTTPS, "https://me:word@hooks.test:8443/T0/B1?token=x")
    'https://hooks.test:8443'
    """
    if protocol not in (Protocol.HTTP, Protocol.HTTPS):
        return target
    parts = urlsplit(target)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def of_filter_version(change: Change, topic: str) -> Iterator[Record]:
    """Yield since which version of the topic a version of a filter is evaluated; forgetting it is no event.

    Rows of earlier releases do not say of which topic of that name they are.
    """
    if change.after is None:
        return
    version = filter_version_of(change.after)
    yield record(
        RecordKind.SUBSCRIPTIONS,
        f"{version.topic_id or topic}.{version.ordinal}.{version.version}.filter",
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
