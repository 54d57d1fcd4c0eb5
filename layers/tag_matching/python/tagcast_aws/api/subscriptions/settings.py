"""What a subscriber chooses, in and out: the body of a subscription and the answer that shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, NotRequired

from pydantic import ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict
from tagcast.errors import Fault, FaultCode
from tagcast.filters.kinds import compile_filter
from tagcast.instant import rfc3339
from tagcast.model import ContentFormat, Protocol, Subscription, SubscriptionSettings
from tagcast.operating.lanes import LaneView
from tagcast.ports import QueueCounts
from tagcast.rows.subscription import FilterVersion
from tagcast.sealing.secrets import KEPT, is_signed_by_secret
from tagcast.settings import Signature
from typing_extensions import TypedDict

from tagcast_aws.api import limits
from tagcast_aws.api.filters import FilterBody, filter_faults
from tagcast_aws.api.http.answer_types import Instant, one_of
from tagcast_aws.api.http.body import Body
from tagcast_aws.api.subscriptions.batch import (
    OF_BATCHES,
    BatchedPushes,
    BatchedPushesAnswer,
    batch_faults,
    batching_of,
    shown_batch,
)
from tagcast_aws.api.subscriptions.client_certificate import (
    OF_CERTIFICATES,
    ClientCertificateAnswer,
    ClientCertificateBody,
    certificate_faults,
    shown_certificate,
)
from tagcast_aws.api.subscriptions.endpoint import (
    AnyEndpoint,
    StoredEndpoint,
    endpoint_faults,
    endpoint_of,
    shown_endpoint,
)
from tagcast_aws.api.subscriptions.headers import OF_HEADERS, PushHeaders, header_faults, headers_of
from tagcast_aws.api.subscriptions.lane import LaneAnswer, shown_lane
from tagcast_aws.api.subscriptions.retry import (
    IN_ORDER,
    OF_ORDERED,
    IndependentRetry,
    Retry,
    StoredRetry,
    growth_faults,
    policy,
    retry_faults,
    shown_retry,
)
from tagcast_aws.api.subscriptions.secret import Secret
from tagcast_aws.api.subscriptions.start_from import StartFrom, instant_of, shown_from

_NULL: JsonDict = {"type": "null"}
OF_PUSHES: JsonDict = {
    "timeout_seconds": False,
    "content_format": False,
    "signature": False,
    "secret": _NULL,
    "headers": _NULL,
    "client_certificate": _NULL,
    "max_per_second": _NULL,
    "batch": _NULL,
}
OF_GROUPS: JsonDict = {"start_from": _NULL}
"""What only a subscription has that is pushed to, and what only a group has, each with what it may be on the other."""
_OF_EITHER: JsonDict = {
    "if": {"properties": {"endpoint": {"properties": {"protocol": {"const": "pull"}}}}},
    "then": {"properties": OF_PUSHES},
    "else": {"properties": OF_GROUPS, "allOf": OF_ORDERED},
    "allOf": [OF_BATCHES, OF_HEADERS, OF_CERTIFICATES],
}

Format = Literal["json", "simplified", "cloudevents", "cmq_json", "cmq_simplified"]
"""The words for how a push is made up."""


_BY_DEFAULT, _IF_ORDERED = json.dumps(IndependentRetry().model_dump()), json.dumps(shown_retry(IN_ORDER))
_WITHOUT_RETRY = f"Without it: {_BY_DEFAULT}; if ordered: {_IF_ORDERED}"


class SubscriptionBody(Body):
    """A subscription; what is left out has its default.

    But secret, headers and client_certificate of a subscription that exists stay as they are; null removes them.
    """

    model_config = ConfigDict(json_schema_extra=_OF_EITHER)
    unions: ClassVar[Mapping[str, str]] = {"endpoint": "protocol", "retry": "strategy"}

    endpoint: AnyEndpoint
    filter: FilterBody | None = None
    # The document tells the default in words: generators of clients make no method of an object as a default.
    retry: Annotated[Retry, Field(description=_WITHOUT_RETRY)] = Field(default_factory=IndependentRetry)
    timeout_seconds: Annotated[int, Field(ge=limits.TIMEOUT_S_MIN, le=limits.TIMEOUT_S_MAX)] = limits.TIMEOUT_S_DEFAULT
    content_format: Format = "json"
    secret: Secret | None = None
    headers: PushHeaders | None = None
    client_certificate: ClientCertificateBody | None = None
    signature: Literal["v1", "v1a"] = "v1"
    ordered: bool | None = None
    dead_letter_topic: Annotated[str, StringConstraints(pattern=limits.NAME)] | None = None
    dead_letter_expired: bool = False
    start_from: StartFrom | None = None
    max_per_second: Annotated[float, Field(ge=limits.RATE_MIN, le=limits.RATE_MAX)] | None = None
    batch: BatchedPushes | None = None
    verification: Literal["none", "required"] | None = None

    @classmethod
    def cross_faults(cls, value: Mapping[str, object]) -> list[Fault]:
        """Add the faults of the filter and those that cross the endpoint's fields."""
        endpoint = value.get("endpoint")
        crossed = endpoint_faults(endpoint) if isinstance(endpoint, Mapping) else []
        is_group = isinstance(endpoint, Mapping) and endpoint.get("protocol") == "pull"
        faults = [fault.under("/endpoint") for fault in crossed] + filter_faults(value.get("filter"))
        faults += batch_faults(value) + header_faults(value) + growth_faults(value)
        faults += certificate_faults(value) + retry_faults(value) if not is_group else []
        others = OF_PUSHES if is_group else OF_GROUPS
        reason = (
            "is not allowed for a group, whose members pull"
            if is_group
            else "is allowed only for a group (protocol pull)"
        )
        return faults + [Fault(reason, f"/{name}", FaultCode.CONFLICT) for name in others if value.get(name)]

    @property
    def keeps(self) -> frozenset[str]:
        """The secrets that are left out: they stay as they are."""
        return KEPT.difference(self.model_fields_set)

    def settings(self) -> SubscriptionSettings:
        """Return the settings as the core knows them; a certificate is examined apart."""
        is_group, ordered = self.endpoint.protocol == "pull", bool(self.ordered)
        retries_in_order = ordered and not is_group and "retry" not in self.model_fields_set
        return SubscriptionSettings(
            endpoint=endpoint_of(self.endpoint),
            filter=self.filter,
            retry=IN_ORDER if retries_in_order else policy(self.retry),
            timeout_s=self.timeout_seconds,
            content_format=ContentFormat(self.content_format),
            secret=self.secret,
            headers=headers_of(self.headers),
            signature=Signature(self.signature),
            ordered=is_group and ordered,
            dead_letter_topic=self.dead_letter_topic,
            dead_letter_expired=self.dead_letter_expired,
            max_per_second=self.max_per_second,
            start_from=instant_of(self.start_from),
            batching=batching_of(self.batch),
        )


class SubscriptionAnswer(TypedDict):
    """A subscription with its lane, as far as that was looked at.

    What is pushed over HTTP is signed by the schemes in *signatures*: ``v1`` by its secret, ``v1a`` by its key of the
    service, or by none. By any of *public_keys* pushes with ``v1a`` verify, and those of no other subscription. Only
    the request that had the service make a secret is told it, and only one that exchanges it until when the former one
    signs besides.
    """

    topic: str
    name: str
    endpoint: StoredEndpoint
    filter: FilterBody | None
    retry: StoredRetry
    timeout_seconds: int
    content_format: Format
    signatures: list[Annotated[str, one_of(Signature)]]
    ordered: bool
    dead_letter_topic: NotRequired[str]
    dead_letter_expired: NotRequired[bool]
    start_from: NotRequired[str]
    max_per_second: NotRequired[float]
    state: NotRequired[Literal["unverified"]]
    state_reason: NotRequired[str]
    signature: NotRequired[Annotated[str, one_of(Signature)]]
    public_keys: NotRequired[list[str]]
    secret: NotRequired[str]
    former_secret_ends_at: NotRequired[Instant]
    batch: NotRequired[BatchedPushesAnswer]
    client_certificate: NotRequired[ClientCertificateAnswer]
    version: int
    created_at: Instant
    updated_at: Instant
    warnings: NotRequired[list[str]]
    lane: NotRequired[LaneAnswer]


class SubscriptionsAnswer(TypedDict):
    """One page of subscriptions."""

    subscriptions: list[SubscriptionAnswer]
    next_cursor: str | None


class VersionAnswer(TypedDict):
    """One version of a filter."""

    version: int
    filter: FilterBody | None
    changed_at: Instant


class VersionsAnswer(TypedDict):
    """The kept versions of a filter, newest first."""

    versions: list[VersionAnswer]


def shown(
    value: Subscription, keys: Sequence[str], lane: LaneView | None = None, counts: QueueCounts | None = None
) -> SubscriptionAnswer:
    """Return the subscription without its secrets, with its public *keys*; with its lane, if that was looked at."""
    chosen = value.settings
    answer: SubscriptionAnswer = {
        "topic": value.topic,
        "name": value.name,
        "endpoint": shown_endpoint(chosen.endpoint),
        "filter": None if chosen.filter is None else dict(chosen.filter),
        "retry": shown_retry(chosen.retry),
        "timeout_seconds": chosen.timeout_s,
        "content_format": chosen.content_format.value,
        "signatures": _signatures(chosen),
        "ordered": chosen.keeps_order,
        "version": value.version,
        "created_at": rfc3339(value.created_at),
        "updated_at": rfc3339(value.updated_at),
    }
    if chosen.is_group:
        answer["start_from"] = shown_from(chosen.start_from)
    if chosen.dead_letter_topic is not None:
        answer["dead_letter_topic"] = chosen.dead_letter_topic
        answer["dead_letter_expired"] = chosen.dead_letter_expired
    if chosen.max_per_second is not None:
        answer["max_per_second"] = chosen.max_per_second
    if chosen.unverified is not None:
        answer["state"], answer["state_reason"] = "unverified", chosen.unverified
    if chosen.batching is not None:
        answer["batch"] = shown_batch(chosen.batching)
    if chosen.client_certificate is not None:
        answer["client_certificate"] = shown_certificate(chosen.client_certificate)
    if chosen.signature is not Signature.V1:
        answer["signature"] = chosen.signature.value
        answer["public_keys"] = list(keys)
    warnings = compile_filter(chosen.filter).warnings
    if warnings:
        answer["warnings"] = list(warnings)
    if lane is not None:
        answer["lane"] = shown_lane(lane, counts, is_pending=chosen.unverified is not None)
    return answer


def _signatures(chosen: SubscriptionSettings) -> list[str]:
    """Return the schemes by which pushes with these settings are signed; only those over HTTP are."""
    if chosen.endpoint.protocol not in (Protocol.HTTP, Protocol.HTTPS):
        return []
    by_secret = [Signature.V1.value] if is_signed_by_secret(chosen) else []
    return by_secret if chosen.signature is Signature.V1 else [*by_secret, chosen.signature.value]


def shown_version(value: FilterVersion) -> VersionAnswer:
    """Return one version of a filter."""
    kept = None if value.filter is None else dict(value.filter)
    return {"version": value.version, "filter": kept, "changed_at": rfc3339(value.changed_at)}
