"""What a subscriber chooses, in and out: the body of a subscription and the answer that shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NotRequired

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict
from tagcast.errors import Fault, FaultCode
from tagcast.filters.kinds import compile_filter
from tagcast.instant import rfc3339
from tagcast.model import Protocol, Subscription, SubscriptionSettings
from tagcast.operating.lanes import LaneView
from tagcast.ports import QueueCounts
from tagcast.rows.subscription import FilterVersion
from tagcast.sealing.secrets import KEPT, is_signed_by_secret
from tagcast.setting import Only, settings_of
from tagcast.settings import Signature
from typing_extensions import TypedDict

from tagcast_aws.api.filters import FilterBody, filter_faults
from tagcast_aws.api.http.answer_types import Instant, one_of
from tagcast_aws.api.http.body import Body, members_at_most
from tagcast_aws.api.http.declared import Wire, Wires, answer_base, body_base, settings_in, shown_settings
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
from tagcast_aws.api.subscriptions.headers import OF_HEADERS, ChangedHeaders, PushHeaders, header_faults, headers_of
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

MEMBERS_MAX = 20
"""More than any object of a subscription has, with what a patch removes."""
_Object = Annotated[dict[str, Any], Field(max_length=MEMBERS_MAX), members_at_most(MEMBERS_MAX, "members")]
_BY_DEFAULT, _IF_ORDERED = json.dumps(IndependentRetry().model_dump()), json.dumps(shown_retry(IN_ORDER))
# The document tells the default in words: generators of clients make no method of an object as a default.
_WITHOUT_RETRY = f"Without it: {_BY_DEFAULT}; if ordered: {_IF_ORDERED}"
WIRES: Wires = {
    "endpoint": Wire(AnyEndpoint, endpoint_of, _Object, StoredEndpoint, shown_endpoint),
    "filter": Wire(
        FilterBody | None,
        patch=_Object,
        answer=FilterBody | None,
        show=lambda value: None if value is None else dict(value),
        default=lambda: None,
    ),
    "retry": Wire(Retry, policy, _Object, StoredRetry, shown_retry, IndependentRetry, _WITHOUT_RETRY),
    "secret": Wire(Secret),
    "headers": Wire(PushHeaders, headers_of, ChangedHeaders),
    # A certificate is examined apart.
    "client_certificate": Wire(
        ClientCertificateBody, lambda body: None, answer=ClientCertificateAnswer, show=shown_certificate
    ),
    "ordered": Wire(bool, bool, answer=bool, default=lambda: None),
    "start_from": Wire(StartFrom, instant_of, answer=str, show=shown_from),
    "batching": Wire(BatchedPushes, batching_of, _Object, BatchedPushesAnswer, shown_batch),
}
"""How those settings of a subscription stand in requests and answers that are no single number, word or text."""


def _others(only: Only) -> JsonDict:
    """Return what the settings of *only* some subscriptions may be on the others: nothing, or null."""
    settings = (each for each in settings_of(SubscriptionSettings) if each.setting.only is only)
    return {each.wire: {"type": "null"} if each.default is None else False for each in settings}


OF_PUSHES, OF_GROUPS = _others(Only.PUSHES), _others(Only.GROUPS)
_OF_EITHER: JsonDict = {
    "if": {"properties": {"endpoint": {"properties": {"protocol": {"const": "pull"}}}}},
    "then": {"properties": OF_PUSHES},
    "else": {"properties": OF_GROUPS, "allOf": OF_ORDERED},
    "allOf": [OF_BATCHES, OF_HEADERS, OF_CERTIFICATES],
}

if TYPE_CHECKING:

    class _Settings(Body):
        client_certificate: ClientCertificateBody | None

    class _Shown(TypedDict):
        pass
else:
    _Settings, _Shown = body_base(SubscriptionSettings, WIRES), answer_base(SubscriptionSettings, WIRES)


class SubscriptionBody(_Settings):
    """A subscription; unnamed settings have their defaults.

    But secret, headers and client_certificate of a subscription that exists stay as they are; null removes them.
    """

    model_config = ConfigDict(json_schema_extra=_OF_EITHER)
    unions: ClassVar[Mapping[str, str]] = {"endpoint": "protocol", "retry": "strategy"}

    verification: Literal["none", "required"] | None = Field(
        None,
        description="Verification of the endpoint before the first push; default: that of the deployment.",
        json_schema_extra={"x-only": "pushes"},
    )

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
        chosen = settings_in(SubscriptionSettings, self, WIRES)
        is_group = chosen["endpoint"].protocol is Protocol.PULL
        if chosen["ordered"] and not is_group and "retry" not in self.model_fields_set:
            chosen["retry"] = IN_ORDER
        return SubscriptionSettings(**chosen | {"ordered": is_group and chosen["ordered"]})


class SubscriptionAnswer(_Shown):
    """A subscription with its lane, as far as that was looked at.

    Pushes over HTTP are signed by the schemes in *signatures*: ``v1`` by the secret, ``v1a`` by a key of the service,
    or by none. Pushes with ``v1a`` verify by one of the *public_keys*, and those of no other subscription do. A
    generated *secret* is in the answer of the request that generated it, and in no other. Only the answer of a rotation
    says until when the former secret signs as well.
    """

    topic: str
    name: str
    signatures: list[Annotated[str, one_of(Signature)]]
    state: NotRequired[Literal["unverified"]]
    state_reason: NotRequired[str]
    public_keys: NotRequired[list[str]]
    secret: NotRequired[str]
    former_secret_ends_at: NotRequired[Instant]
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
        **shown_settings(chosen, WIRES, Only.GROUPS if chosen.is_group else Only.PUSHES),  # type: ignore[typeddict-item]
        "ordered": chosen.keeps_order,
        "signatures": _signatures(chosen),
        "version": value.version,
        "created_at": rfc3339(value.created_at),
        "updated_at": rfc3339(value.updated_at),
    }
    if chosen.unverified is not None:
        answer["state"], answer["state_reason"] = "unverified", chosen.unverified
    if chosen.signature is not Signature.V1:
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
