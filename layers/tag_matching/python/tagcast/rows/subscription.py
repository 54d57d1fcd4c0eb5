"""Rows of subscriptions: what a subscriber chose, and of a removed one its name and when that was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple, cast

from tagcast.model import Subscription
from tagcast.rows.keys import name_key, secrets_key, shadow_key, subscription_key, version_key
from tagcast.rows.kind import Attributes, Kind
from tagcast.rows.lane import Lane
from tagcast.rows.values import dense, number, optional_text, text
from tagcast.settings import (
    Batching,
    ClientCertificate,
    ContentFormat,
    Endpoint,
    Protocol,
    RetryPolicy,
    Signature,
    Strategy,
    SubscriptionSettings,
)
from tagcast.tables import ABSENT, Delete, Expectation, Put, Row, Update, Value, Write


def settings_attributes(settings: SubscriptionSettings) -> dict[str, str | int | None]:
    """Return what a subscriber chooses, as it stands in a row, or None; a secret has the name that it has there."""
    retry, batching, certificate = settings.retry, settings.batching, settings.client_certificate
    return {
        "protocol": settings.endpoint.protocol.value,
        "target": settings.endpoint.target,
        "filter": _json(settings.filter),
        "strategy": retry.strategy.value,
        "max_retries": retry.max_retries,
        "interval_s": retry.interval_s,
        "interval_s_max": retry.interval_s_max,
        "timeout_s": settings.timeout_s,
        "content_format": settings.content_format.value,
        "secret": settings.secret,
        "ordered": 1 if settings.ordered else None,
        "dead_letter_topic": settings.dead_letter_topic,
        "dead_letter_expired": 1 if settings.dead_letter_expired else None,
        "max_per_second": _text(settings.max_per_second),
        "start_from": settings.start_from,
        "batch_messages_max": None if batching is None else batching.messages_max,
        "batch_bytes_max": None if batching is None else batching.bytes_max,
        "sealed": settings.sealed,
        "signature": None if settings.signature is Signature.V1 else settings.signature.value,
        "unverified": settings.unverified,
        "allowed_per_second": _text(settings.allowed_per_second),
        "client_certificate": None if certificate is None else _json(asdict(certificate)),
    }


def _subscription_row(subscription: Subscription) -> dict[str, Value]:
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


def _json(value: Mapping[str, object] | None) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True)


def _text(number: float | None) -> str | None:
    return None if number is None else str(number)


def _subscription_in(row: Attributes) -> Subscription:
    """Return the subscription of a row; its secrets stand elsewhere."""
    get = row.get
    settings = SubscriptionSettings(
        endpoint=Endpoint(Protocol(row["protocol"]), row["target"]),
        filter=filter_of(row),
        retry=RetryPolicy(Strategy(row["strategy"]), row["max_retries"], get("interval_s"), row["interval_s_max"]),
        timeout_s=row["timeout_s"],
        content_format=ContentFormat(row["content_format"]),
        secret=get("secret"),
        ordered="ordered" in row,
        dead_letter_topic=get("dead_letter_topic"),
        dead_letter_expired="dead_letter_expired" in row,
        max_per_second=float(row["max_per_second"]) if "max_per_second" in row else None,
        start_from=get("start_from"),
        batching=Batching(row["batch_messages_max"], row["batch_bytes_max"]) if "batch_messages_max" in row else None,
        sealed=get("sealed"),
        signature=Signature(get("signature", Signature.V1)),
        unverified=get("unverified"),
        allowed_per_second=float(row["allowed_per_second"]) if "allowed_per_second" in row else None,
        client_certificate=_certificate_in(row),
    )
    return Subscription(
        topic=row["topic"],
        name=row["name"],
        topic_id=row["topic_id"],
        ordinal=row["ordinal"],
        settings=settings,
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _certificate_in(row: Attributes) -> ClientCertificate | None:
    return ClientCertificate(**json.loads(row["client_certificate"])) if "client_certificate" in row else None


SUBSCRIPTIONS = Kind(subscription_key, _subscription_row, _subscription_in)


def filter_of(row: Row) -> Mapping[str, object] | None:
    """Return the filter in the row of a subscription; None: it has none, and wants everything."""
    stored = optional_text(row, "filter")
    return None if stored is None else cast("Mapping[str, object]", json.loads(stored))


def subscription_put(changed: Subscription, known: Subscription | None) -> Put:
    """Return the write of *changed* over *known* (None: there is none), unless that changed since it was read."""
    expect: Expectation = {"pk": ABSENT} if known is None else _as_read(known)
    return SUBSCRIPTIONS.put(changed, changed.topic, changed.name, expect=expect)


def subscription_deletes(known: Subscription) -> tuple[Write, ...]:
    """Return the writes that remove a subscription, unless it changed since it was read, its shadow and its secrets."""
    return (
        Delete(subscription_key(known.topic, known.name), _as_read(known)),
        Delete(shadow_key(known.topic, known.name)),
        Delete(secrets_key(known.topic, known.name)),
    )


def _as_read(known: Subscription) -> Expectation:
    return {"version": known.version, "ordinal": known.ordinal}


@dataclass(frozen=True, slots=True)
class Removal:
    """The name of a removed subscription, for receipts; publishes at *until*, a version of its topic, do not see it."""

    name: str
    ordinal: int
    removed_at: int
    until: int
    ttl: int

    def precedes(self, subscriptions_version: int) -> bool:
        """Say whether a publish that saw *subscriptions_version* of the topic came too late for the subscription."""
        return self.until <= subscriptions_version


def _removal_row(removal: Removal) -> dict[str, Value]:
    return {
        "name": removal.name,
        "ordinal": removal.ordinal,
        "removed_at": removal.removed_at,
        "until": removal.until,
        "ttl": removal.ttl,
    }


def _removal_in(row: Attributes) -> Removal:
    return Removal(row["name"], row["ordinal"], row["removed_at"], row["until"], row["ttl"])


REMOVALS = Kind(name_key, _removal_row, _removal_in)


def removal_put(subscription: Subscription, tombstone: Lane, subscriptions_version: int) -> Put:
    """Return the write that keeps the name of a removed subscription as long as its *tombstone*."""
    assert tombstone.next_attempt_at is not None
    assert tombstone.ttl is not None
    removed_at, ttl = tombstone.next_attempt_at, tombstone.ttl
    removal = Removal(subscription.name, subscription.ordinal, removed_at, subscriptions_version, ttl)
    return REMOVALS.put(removal, subscription.topic, subscription.ordinal)


_NOT_KEPT = ("pk", "sk", "secret")
"""Only of a group a secret stands in its row, for receipts: who publishes or hands over needs none."""


class KeptSubscription(NamedTuple):
    """One subscription as it is kept beside the table, whose row is the JSON *content*."""

    ordinal: int
    name: str
    keeps_order: bool
    content: str


class KeptSubscriptions:
    """Makes them of rows; what says whether an order is kept is worked out once for all that say the same."""

    def __init__(self) -> None:
        self._orders: dict[tuple[Value, Value, Value], bool] = {}

    def of(self, row: Row) -> KeptSubscription:
        """Return what is kept of a row."""
        about = (row["protocol"], row["strategy"], row.get("ordered"))
        if about not in self._orders:
            self._orders[about] = SUBSCRIPTIONS.value_of(row).settings.keeps_order
        content = json.dumps({name: value for name, value in row.items() if name not in _NOT_KEPT})
        return KeptSubscription(number(row, "ordinal"), text(row, "name"), self._orders[about], content)


def kept_in(content: bytes) -> list[Row]:
    """Return the rows in a JSON list of them."""
    rows: list[Row] = json.loads(content)
    return rows


def subscriptions_kept(rows: list[Row]) -> dict[int, Subscription]:
    """Return the subscriptions in rows by their ordinals."""
    return {each.ordinal: each for each in map(SUBSCRIPTIONS.value_of, rows)}


def filters_kept(rows: list[Row]) -> dict[int, Mapping[str, object] | None]:
    """Return only the filters of the subscriptions in rows, by their ordinals."""
    return {number(row, "ordinal"): filter_of(row) for row in rows}


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


def _version_row(version: FilterVersion) -> dict[str, Value]:
    return dense(
        {
            "version": version.version,
            "filter": _json(version.filter),
            "changed_at": version.changed_at,
            "since": version.since,
            "ordinal": version.ordinal,
            "name": version.name,
            "topic_id": version.topic_id,
        }
    )


def _version_in(row: Attributes) -> FilterVersion:
    return FilterVersion(
        version=row["version"],
        filter=filter_of(row),
        changed_at=row["changed_at"],
        since=row["since"],
        ordinal=row["ordinal"],
        name=row["name"],
        topic_id=row["topic_id"],
    )


FILTER_VERSIONS = Kind(version_key, _version_row, _version_in)


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
    return FILTER_VERSIONS.put(version, subscription.topic, subscription.ordinal, subscription.version)


def version_delete(topic: str, version: FilterVersion) -> Delete:
    """Return the write that forgets a version at once."""
    return Delete(version_key(topic, version.ordinal, version.version))


def version_expiry(topic: str, version: FilterVersion, ttl: int | None) -> Update:
    """Return the write after which a version goes at *ttl*, in seconds, if it is still there."""
    key = version_key(topic, version.ordinal, version.version)
    return Update(key, {"ttl": ttl}, (), {"version": version.version})
