"""Rows of subscriptions: what a subscriber chose, and of a removed one its name and when that was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import NamedTuple, cast

from tagcast.model import Subscription
from tagcast.rows.declaration import NOT_STORED, Attribute, Beside, Declaration, Fields, attribute
from tagcast.rows.keys import name_key, secrets_key, shadow_key, subscription_key, version_key
from tagcast.rows.lane import Lane
from tagcast.rows.values import number, optional_text, text
from tagcast.settings import ClientCertificate, Signature
from tagcast.tables import ABSENT, Delete, Expectation, Put, Row, Update, Value, Write

SUBSCRIPTIONS = Declaration(
    Subscription,
    subscription_key,
    "a subscription; with encrypted secrets it has only their token (`sealed`), and a group has a `secret` of its own",
    "when it is removed",
    settings=Fields(
        endpoint=Fields(),
        retry=Fields(),
        batching=Fields(
            messages_max=attribute(named="batch_messages_max"), bytes_max=attribute(named="batch_bytes_max")
        ),
        signature=attribute(default=Signature.V1),
        client_certificate=Attribute(
            "JSON",
            lambda certificate: json.dumps(asdict(certificate), sort_keys=True),
            lambda text: ClientCertificate(**json.loads(text)),
            default=None,
        ),
        formers=NOT_STORED,
        headers=NOT_STORED,
        client_key=NOT_STORED,
    ),
)


SUBSCRIPTION_FIELDS = frozenset(each.name for each in fields(Subscription))
"""The attributes that no subscriber chose."""


def settings_attributes(subscription: Subscription) -> dict[str, str | int]:
    """Return what a subscriber chose, as it stands in the row; a secret has the name that it has in the model."""
    row = SUBSCRIPTIONS.row_of(subscription)
    return {name: cast("str | int", value) for name, value in row.items() if name not in SUBSCRIPTION_FIELDS}


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


REMOVALS = Declaration(
    Removal, name_key, "the name of a removed subscription, for receipts", "8 days after the removal"
)


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
    return FILTER_VERSIONS.put(version, subscription.topic, subscription.ordinal, subscription.version)


def version_delete(topic: str, version: FilterVersion) -> Delete:
    """Return the write that forgets a version at once."""
    return Delete(version_key(topic, version.ordinal, version.version))


def version_expiry(topic: str, version: FilterVersion, ttl: int | None) -> Update:
    """Return the write after which a version goes at *ttl*, in seconds, if it is still there."""
    key = version_key(topic, version.ordinal, version.version)
    return Update(key, {"ttl": ttl}, (), {"version": version.version})
