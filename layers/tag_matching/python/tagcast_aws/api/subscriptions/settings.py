"""The settings of a subscription in requests and answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NotRequired

from pydantic import ConfigDict, Field, model_validator
from pydantic.config import JsonDict
from tagcast.errors import Fault, FaultCode
from tagcast.filters.kinds import compile_filter
from tagcast.instant import rfc3339
from tagcast.model import Protocol, Subscription, SubscriptionSettings
from tagcast.operating.lanes import LaneView
from tagcast.ports import QueueCounts
from tagcast.rows.subscription import FilterVersion
from tagcast.sealing import KEPT, is_signed_by_secret
from tagcast.setting import Only, settings_of
from tagcast.subscription_settings import IN_ORDER, Signature
from typing_extensions import TypedDict

from tagcast_aws.api.filters import FilterBody, filter_faults
from tagcast_aws.api.http.answer_types import Instant, one_of
from tagcast_aws.api.http.body import Body, limit_field_count
from tagcast_aws.api.http.declared import Wire, Wires, answer_base, body_base, settings_from_body, show_settings
from tagcast_aws.api.subscriptions.batch import (
    OF_BATCHES,
    BatchedPushes,
    BatchedPushesAnswer,
    batch_faults,
    batching_of,
    show_batch,
)
from tagcast_aws.api.subscriptions.client_certificate import (
    OF_CERTIFICATES,
    ClientCertificateAnswer,
    ClientCertificateBody,
    certificate_faults,
    show_certificate,
)
from tagcast_aws.api.subscriptions.endpoint import (
    AnyEndpoint,
    StoredEndpoint,
    endpoint_faults,
    endpoint_of,
    show_endpoint,
)
from tagcast_aws.api.subscriptions.headers import OF_HEADERS, ChangedHeaders, PushHeaders, header_faults, headers_of
from tagcast_aws.api.subscriptions.lane import LaneAnswer, show_lane
from tagcast_aws.api.subscriptions.retry import (
    OF_ORDERED,
    IndependentRetry,
    Retry,
    StoredRetry,
    growth_faults,
    policy,
    retry_faults,
    show_retry,
)
from tagcast_aws.api.subscriptions.secret import Secret
from tagcast_aws.api.subscriptions.start_from import StartFrom, instant_of, show_start

MEMBERS_MAX = 20
"""The maximum members of an object in a subscription, including members that a patch removes."""
_Object = Annotated[dict[str, Any], Field(max_length=MEMBERS_MAX), limit_field_count(MEMBERS_MAX, "members")]
_BY_DEFAULT, _IF_ORDERED = json.dumps(IndependentRetry().model_dump()), json.dumps(show_retry(IN_ORDER))
# The default is in the description, because client generators skip an operation whose default is an object.
_WITHOUT_RETRY = f"Without it: {_BY_DEFAULT}; if ordered: {_IF_ORDERED}"
WIRES: Wires = {
    "endpoint": Wire(AnyEndpoint, endpoint_of, _Object, StoredEndpoint, show_endpoint),
    "filter": Wire(
        FilterBody | None,
        patch=_Object,
        answer=FilterBody | None,
        show=lambda value: None if value is None else dict(value),
        default=lambda: None,
    ),
    "retry": Wire(Retry, policy, _Object, StoredRetry, show_retry, IndependentRetry, _WITHOUT_RETRY),
    "secret": Wire(Secret),
    "headers": Wire(PushHeaders, headers_of, ChangedHeaders),
    # `add_certificate` validates and sets the certificate.
    "client_certificate": Wire(
        ClientCertificateBody, lambda body: None, answer=ClientCertificateAnswer, show=show_certificate
    ),
    "ordered": Wire(bool, bool, answer=bool, default=lambda: None),
    "start_from": Wire(StartFrom, instant_of, answer=str, show=show_start),
    "batching": Wire(BatchedPushes, batching_of, _Object, BatchedPushesAnswer, show_batch),
}
"""The API's forms of settings that are not a single number, word or text."""


def _others(only: Only) -> JsonDict:
    """Return schemas for subscriptions that are not of the kind *only*: its settings must be null or absent."""
    settings = (each for each in settings_of(SubscriptionSettings) if each.setting.only is only)
    return {each.wire: {"type": "null"} if each.default is None else False for each in settings}


OF_PUSHES, OF_GROUPS = _others(Only.PUSHES), _others(Only.GROUPS)
_OF_EITHER: JsonDict = {
    "if": {"properties": {"endpoint": {"properties": {"protocol": {"const": "pull"}}}}},
    "then": {"properties": OF_PUSHES},
    "else": {"properties": OF_GROUPS, "allOf": [*OF_ORDERED, OF_BATCHES, OF_HEADERS, OF_CERTIFICATES]},
}

if TYPE_CHECKING:

    class _Settings(Body):
        client_certificate: ClientCertificateBody | None

    class _Shown(TypedDict):
        pass
else:
    _Settings, _Shown = body_base(SubscriptionSettings, WIRES), answer_base(SubscriptionSettings, WIRES)


class SubscriptionBody(_Settings):
    """The settings of a subscription; missing settings get their defaults.

    If you replace a subscription, a missing secret, headers or client_certificate keeps its stored value; null removes
    it. If the endpoint has another host, name the headers again, or set them to null. Otherwise the request is refused,
    so no other host gets them.
    """

    model_config = ConfigDict(json_schema_extra=_OF_EITHER)
    unions: ClassVar[Mapping[str, str]] = {"endpoint": "protocol", "retry": "strategy"}

    verification: Literal["none", "required"] | None = Field(
        None,
        description="Verification of the endpoint before the first push; default: that of the deployment.",
        json_schema_extra={"x-only": "pushes"},
    )

    @model_validator(mode="before")
    @classmethod
    def _without_null_retry(cls, value: object) -> object:
        """Leave out a null ``retry``, so that its default depends on ``ordered``."""
        if isinstance(value, Mapping) and "retry" in value and value["retry"] is None:
            return {name: each for name, each in value.items() if name != "retry"}
        return value

    @classmethod
    def cross_faults(cls, value: Mapping[str, object]) -> list[Fault]:
        """Return the faults of the filter, and faults between fields."""
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
        """The names of the write-only settings that the body lacks. They keep their stored values."""
        return KEPT.difference(self.model_fields_set)

    def settings(self) -> SubscriptionSettings:
        """Convert the body to the core's settings. :func:`add_certificate` adds the certificate later."""
        chosen = settings_from_body(SubscriptionSettings, self, WIRES)
        is_group = chosen["endpoint"].protocol is Protocol.PULL
        if chosen["ordered"] and "retry" not in self.model_fields_set:
            chosen["retry"] = IN_ORDER
        return SubscriptionSettings(**chosen | {"ordered": is_group and chosen["ordered"]})


class SubscriptionAnswer(_Shown):
    """A subscription. Only the answer to a batch of subscriptions has no ``lane``.

    ``signatures`` are the schemes that sign pushes over HTTP: ``v1`` by the secret, ``v1a`` by a key of the service.
    With ``v1a``, one of the ``public_keys`` verifies each push. The service derives these keys for this subscription
    alone. Only the request that generates a ``secret`` shows it. Only the answer to a rotation shows
    ``former_secret_ends_at``: until then the old secret also signs. ``allowed_per_second`` is the rate that the
    endpoint allowed when it was verified.
    """

    topic: str
    name: str
    signatures: list[Annotated[str, one_of(Signature)]]
    state: NotRequired[Literal["unverified"]]
    state_reason: NotRequired[str]
    allowed_per_second: NotRequired[float]
    public_keys: NotRequired[list[str]]
    secret: NotRequired[str]
    former_secret_ends_at: NotRequired[Instant]
    version: int
    created_at: Instant
    updated_at: Instant
    warnings: NotRequired[list[str]]
    lane: NotRequired[LaneAnswer]


class SubscriptionsAnswer(TypedDict):
    """One page of subscriptions. ``next_cursor`` is null on the last page."""

    subscriptions: list[SubscriptionAnswer]
    next_cursor: str | None


class VersionAnswer(TypedDict):
    """One version of a filter. A null filter matches everything."""

    version: int
    filter: FilterBody | None
    changed_at: Instant


class VersionsAnswer(TypedDict):
    """One page of the stored versions of a filter, newest first. ``next_cursor`` is null on the last page."""

    versions: list[VersionAnswer]
    next_cursor: str | None


def show_subscription(
    value: Subscription,
    keys: Sequence[str],
    lane: LaneView | None = None,
    counts: QueueCounts | None = None,
) -> SubscriptionAnswer:
    """Return the answer with a subscription and its public *keys*, without secrets.

    Without *lane*, the answer has no lane. *counts* are the numbers of messages in a group's queue.
    """
    chosen = value.settings
    answer: SubscriptionAnswer = {
        "topic": value.topic,
        "name": value.name,
        **show_settings(chosen, WIRES, Only.GROUPS if chosen.is_group else Only.PUSHES),  # type: ignore[typeddict-item]
        "ordered": chosen.keeps_order,
        "signatures": _signatures(chosen),
        "version": value.version,
        "created_at": rfc3339(value.created_at),
        "updated_at": rfc3339(value.updated_at),
    }
    if chosen.unverified is not None:
        answer["state"], answer["state_reason"] = "unverified", chosen.unverified
    if chosen.allowed_per_second is not None:
        answer["allowed_per_second"] = chosen.allowed_per_second
    if chosen.signature is not Signature.V1:
        answer["public_keys"] = list(keys)
    if lane is not None:
        answer["lane"] = show_lane(lane, counts, is_unverified=chosen.unverified is not None)
    return answer


def with_warnings(answer: SubscriptionAnswer, subscription: Subscription, lost: str | None) -> SubscriptionAnswer:
    """Return *answer* with the warnings about the subscription's filter, and with *lost* unless it is None.

    *lost* is a warning about dead letters. The list of a topic's subscriptions has no warnings, because compiling all
    filters may take seconds.
    """
    if warnings := [*compile_filter(subscription.settings.filter).warnings, *([] if lost is None else [lost])]:
        answer["warnings"] = warnings
    return answer


def _signatures(chosen: SubscriptionSettings) -> list[str]:
    """Return the schemes that sign pushes with these settings; empty unless the endpoint is HTTP."""
    if chosen.endpoint.protocol not in (Protocol.HTTP, Protocol.HTTPS):
        return []
    by_secret = [Signature.V1.value] if is_signed_by_secret(chosen) else []
    return by_secret if chosen.signature is Signature.V1 else [*by_secret, chosen.signature.value]


def show_version(value: FilterVersion) -> VersionAnswer:
    """Return the answer with one version of a filter."""
    kept = None if value.filter is None else dict(value.filter)
    return {"version": value.version, "filter": kept, "changed_at": rfc3339(value.changed_at)}
