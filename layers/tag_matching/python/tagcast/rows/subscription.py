"""Rows of subscriptions: their settings and filter versions, and the names of deleted subscriptions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple, cast

from tagcast.model import Subscription
from tagcast.rows.codec import Codec, RowPart, json_part, row_format
from tagcast.rows.keys import name_key, secrets_key, shadow_key, subscription_key, version_key
from tagcast.rows.lane import Lane
from tagcast.rows.values import number, optional_text, text
from tagcast.subscription_settings import Batching, ClientCertificate, Endpoint, RetryPolicy, SubscriptionSettings
from tagcast.tables import ABSENT, Delete, Expectation, Put, Row, Update, Value, Write

SETTINGS = Codec(
    SubscriptionSettings,
    {
        "endpoint": Codec(Endpoint),
        "filter": json_part("filter"),
        "retry": Codec(RetryPolicy),
        "batching": RowPart(
            lambda batching: {
                "batch_messages_max": None if batching is None else batching.messages_max,
                "batch_bytes_max": None if batching is None else batching.bytes_max,
            },
            lambda row: (
                Batching(row["batch_messages_max"], row["batch_bytes_max"]) if "batch_messages_max" in row else None
            ),
        ),
        "client_certificate": json_part(
            "client_certificate", asdict, lambda certificate: ClientCertificate(**certificate)
        ),
    },
    elsewhere=("formers", "headers", "client_key"),
)
"""The settings in the row of a subscription. A subscriber's secrets are in a separate row (`rows/sealed.py`)."""


SUBSCRIPTIONS = row_format(subscription_key, Codec(Subscription, {"settings": SETTINGS}))
"""The rows of subscriptions, without the secrets of the separate rows."""


def filter_of(row: Row) -> Mapping[str, object] | None:
    """Return the filter in the row of a subscription, or None if the subscription has no filter."""
    stored = optional_text(row, "filter")
    return None if stored is None else cast("Mapping[str, object]", json.loads(stored))


def subscription_put(changed: Subscription, known: Subscription | None) -> Put:
    """Return the write of *changed*. It fails if the row changed after *known* was read.

    If *known* is None, it fails if the row exists.
    """
    expect: Expectation = {"pk": ABSENT} if known is None else _as_read(known)
    return SUBSCRIPTIONS.put(changed, changed.topic, changed.name, expect=expect)


def subscription_deletes(known: Subscription) -> tuple[Write, ...]:
    """Return the writes that delete a subscription, its shadow and its secrets.

    They fail if the subscription changed after *known* was read.
    """
    return (
        Delete(subscription_key(known.topic, known.name), _as_read(known)),
        Delete(shadow_key(known.topic, known.name)),
        Delete(secrets_key(known.topic, known.name)),
    )


def _as_read(known: Subscription) -> Expectation:
    return {"version": known.version, "ordinal": known.ordinal}


@dataclass(frozen=True, slots=True)
class Removal:
    """The name of a deleted subscription. It is kept until *ttl* (seconds), so that messages can still be explained.

    *until* is the topic's version after the deletion. A publish at this version or later did not match the
    subscription.
    """

    name: str
    ordinal: int
    removed_at: int
    until: int
    ttl: int

    def precedes(self, subscriptions_version: int) -> bool:
        """Return whether a publish at this *subscriptions_version* of the topic came after the deletion."""
        return self.until <= subscriptions_version


REMOVALS = row_format(name_key, Codec(Removal))


def removal_put(subscription: Subscription, tombstone: Lane, subscriptions_version: int) -> Put:
    """Return the write that stores the name of a deleted subscription until its *tombstone* expires."""
    assert tombstone.next_attempt_at is not None
    assert tombstone.ttl is not None
    removed_at, ttl = tombstone.next_attempt_at, tombstone.ttl
    removal = Removal(subscription.name, subscription.ordinal, removed_at, subscriptions_version, ttl)
    return REMOVALS.put(removal, subscription.topic, subscription.ordinal)


_NOT_KEPT = ("pk", "sk", "secret")
"""Attributes that the stored copy of a topic's subscriptions omits. Only groups have ``secret`` in their rows."""


class KeptSubscription(NamedTuple):
    """One subscription in the stored copy of a topic's subscriptions. *content* is the subscription's row as JSON.

    *keeps_order*: its deliveries are ordered.
    """

    ordinal: int
    name: str
    keeps_order: bool
    content: str


class KeptSubscriptions:
    """Converts rows of subscriptions to the form of the stored copy.

    Protocol, strategy and the setting `ordered` decide whether a subscription keeps an order. The result is cached for
    each combination of them.
    """

    def __init__(self) -> None:
        self._orders: dict[tuple[Value, Value, Value], bool] = {}

    def of(self, row: Row) -> KeptSubscription:
        """Return the subscription in *row* in the form of the stored copy, without keys and secret."""
        about = (row["protocol"], row["strategy"], row.get("ordered"))
        if about not in self._orders:
            self._orders[about] = SUBSCRIPTIONS.value_of(row).settings.keeps_order
        content = json.dumps({name: value for name, value in row.items() if name not in _NOT_KEPT})
        return KeptSubscription(number(row, "ordinal"), text(row, "name"), self._orders[about], content)


def subscriptions_kept(content: bytes) -> dict[int, Subscription]:
    """Return the subscriptions in *content*, a JSON list of rows of subscriptions, by ordinal."""
    return {each.ordinal: each for each in map(SUBSCRIPTIONS.value_of, json.loads(content))}


def filters_kept(content: bytes) -> dict[int, Mapping[str, object] | None]:
    """Return only the filters in *content*, a JSON list of rows of subscriptions, by ordinal."""
    return {number(row, "ordinal"): filter_of(row) for row in json.loads(content)}


@dataclass(frozen=True, slots=True)
class FilterVersion:
    """One version of a subscription's filter. If *filter* is None, the subscription had no filter.

    *since* is the first version of the topic whose publishes evaluate this filter.
    """

    version: int
    filter: Mapping[str, object] | None
    changed_at: int
    since: int
    ordinal: int
    name: str
    topic_id: str


FILTER_VERSIONS = row_format(version_key, Codec(FilterVersion, {"filter": json_part("filter")}))


def version_put(subscription: Subscription, since: int) -> Put:
    """Return the write that stores the filter of *subscription* as a version. Topic version *since* is its first."""
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


def version_expiry(topic: str, ordinal: int, version: int, ttl: int | None) -> Update:
    """Return the write that lets a stored filter version expire at *ttl*, in seconds. It fails without this row."""
    return Update(version_key(topic, ordinal, version), {"ttl": ttl}, (), {"version": version})
