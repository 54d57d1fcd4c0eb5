"""The codec between topics and subscriptions and their rows: only this module knows these attribute names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NotRequired, TypedDict, cast

from tagcast.model import (
    Batching,
    ContentFormat,
    Endpoint,
    FilterType,
    Keep,
    Ordering,
    Protocol,
    RetryPolicy,
    Strategy,
    Subscription,
    SubscriptionSettings,
    Topic,
)
from tagcast.rows.values import dense, number, optional_number, optional_text, text
from tagcast.settings import ClientCertificate, Signature
from tagcast.tables import Row, Value


def topic_row(topic: Topic) -> Row:
    """Return the row of a topic."""
    row: dict[str, Value] = {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "retention_s": topic.retention_s,
        "body_bytes_max": topic.body_bytes_max,
        "ordering": topic.ordering.value,
        "created_at": topic.created_at,
        "updated_at": topic.updated_at,
        "subscriptions_version": topic.subscriptions_version,
        "subscription_count": topic.subscription_count,
        "next_ordinal": topic.next_ordinal,
    }
    if topic.keep is not Keep.OWED:
        row["keep"] = topic.keep.value
    return row if topic.filter_type is None else row | {"filter_type": topic.filter_type.value}


class _TopicAttributes(TypedDict):
    """The attributes of a topic's row as they are read; `recent_changes` knows the others."""

    topic: str
    topic_id: str
    retention_s: int
    body_bytes_max: int
    ordering: str
    created_at: int
    updated_at: int
    subscriptions_version: int
    subscription_count: int
    next_ordinal: int
    filter_type: NotRequired[str]
    keep: NotRequired[str]


def topic_of(row: Row) -> Topic:
    """Return the topic in a row."""
    read = cast("_TopicAttributes", row)
    return Topic(
        name=read["topic"],
        topic_id=read["topic_id"],
        retention_s=read["retention_s"],
        body_bytes_max=read["body_bytes_max"],
        ordering=Ordering(read["ordering"]),
        created_at=read["created_at"],
        updated_at=read["updated_at"],
        subscriptions_version=read["subscriptions_version"],
        subscription_count=read["subscription_count"],
        next_ordinal=read["next_ordinal"],
        recent=tuple(cast("Sequence[str]", row.get("recent", ()))),
        filter_type=FilterType(read["filter_type"]) if "filter_type" in read else None,
        keep=Keep(read.get("keep", Keep.OWED)),
    )


def subscription_row(subscription: Subscription) -> Row:
    """Return the row of a subscription."""
    return dense(
        {
            "topic": subscription.topic,
            "name": subscription.name,
            "topic_id": subscription.topic_id,
            "ordinal": subscription.ordinal,
            **settings_attributes(subscription.settings),
            "version": subscription.version,
            "created_at": subscription.created_at,
            "updated_at": subscription.updated_at,
        }
    )


def subscription_of(row: Row) -> Subscription:
    """Return the subscription in a row."""
    return Subscription(
        topic=text(row, "topic"),
        name=text(row, "name"),
        topic_id=text(row, "topic_id"),
        ordinal=number(row, "ordinal"),
        settings=_settings_of(row),
        version=number(row, "version"),
        created_at=number(row, "created_at"),
        updated_at=number(row, "updated_at"),
    )


def settings_attributes(settings: SubscriptionSettings) -> dict[str, str | int | None]:
    """Return what a subscriber chose as attributes; a secret has the name that it has in the model."""
    return {
        "filter": None if settings.filter is None else json.dumps(settings.filter, sort_keys=True),
        "protocol": settings.endpoint.protocol.value,
        "target": settings.endpoint.target,
        "strategy": settings.retry.strategy.value,
        "max_retries": settings.retry.max_retries,
        "interval_s": settings.retry.interval_s,
        "interval_s_max": settings.retry.interval_s_max,
        "timeout_s": settings.timeout_s,
        "content_format": settings.content_format.value,
        "secret": settings.secret,
        "sealed": settings.sealed,
        "signature": None if settings.signature is Signature.V1 else settings.signature.value,
        "ordered": 1 if settings.ordered else None,
        "dead_letter_topic": settings.dead_letter_topic,
        "max_per_second": None if settings.max_per_second is None else str(settings.max_per_second),
        "consume_from": settings.consume_from,
        "batch_messages_max": None if settings.batching is None else settings.batching.messages_max,
        "batch_bytes_max": None if settings.batching is None else settings.batching.bytes_max,
        "unverified": settings.unverified,
        "allowed_per_second": None if settings.allowed_per_second is None else str(settings.allowed_per_second),
        "client_certificate": _certificate_text(settings.client_certificate),
    }


def filter_of(row: Row) -> Mapping[str, object] | None:
    """Return the filter in the row of a subscription; None: it has none, and wants everything."""
    stored = optional_text(row, "filter")
    return None if stored is None else cast("Mapping[str, object]", json.loads(stored))


def _settings_of(row: Row) -> SubscriptionSettings:
    return SubscriptionSettings(
        endpoint=Endpoint(Protocol(text(row, "protocol")), text(row, "target")),
        filter=filter_of(row),
        retry=RetryPolicy(
            strategy=Strategy(text(row, "strategy")),
            max_retries=number(row, "max_retries"),
            interval_s=optional_number(row, "interval_s"),
            interval_s_max=number(row, "interval_s_max"),
        ),
        timeout_s=number(row, "timeout_s"),
        content_format=ContentFormat(text(row, "content_format")),
        secret=optional_text(row, "secret"),
        ordered="ordered" in row,
        dead_letter_topic=optional_text(row, "dead_letter_topic"),
        max_per_second=_rate(row, "max_per_second"),
        consume_from=optional_number(row, "consume_from"),
        batching=_batching_of(row),
        signature=Signature(optional_text(row, "signature") or Signature.V1),
        sealed=optional_text(row, "sealed"),
        unverified=optional_text(row, "unverified"),
        allowed_per_second=_rate(row, "allowed_per_second"),
        client_certificate=_certificate_of(row),
    )


def _certificate_text(certificate: ClientCertificate | None) -> str | None:
    return None if certificate is None else json.dumps(asdict(certificate), sort_keys=True)


def _certificate_of(row: Row) -> ClientCertificate | None:
    stored = optional_text(row, "client_certificate")
    if stored is None:
        return None
    found = json.loads(stored)
    return ClientCertificate(found["fingerprint"], found["subject"], found["expires_at"])


def _rate(row: Row, name: str) -> float | None:
    stored = optional_text(row, name)
    return None if stored is None else float(stored)


def _batching_of(row: Row) -> Batching | None:
    if "batch_messages_max" not in row:
        return None
    return Batching(number(row, "batch_messages_max"), number(row, "batch_bytes_max"))
