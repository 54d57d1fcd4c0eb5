"""Answers of the API as values. Unknown fields are left out, so that an older client can read a newer API.

Every answer is named after its schema in the OpenAPI document, without ``Answer``. Instants are aware datetimes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tagcast_client.body import WithBody
from tagcast_client.filters import AnyFilter
from tagcast_client.outgoing import ArchivedMessage as ArchivedMessage
from tagcast_client.outgoing import Body as Body
from tagcast_client.outgoing import NewMessage as NewMessage
from tagcast_client.outgoing import Tags as Tags
from tagcast_client.settings import ContentFormat, Endpoint, Keep, Ordering, Retry, Signature


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted message, which *matched* this number of subscriptions."""

    message_id: str
    accepted_at: datetime
    expires_at: datetime
    matched: int


@dataclass(frozen=True, slots=True)
class Refused:
    """An item of a batch was refused, for the reasons in *error* (a problem of RFC 9457); the others stand."""

    error: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; *version* is what `if_version` compares. *retained_messages* is told for one topic only."""

    name: str
    retention_seconds: int
    max_message_bytes: int
    ordering: Ordering
    subscriptions: int
    created_at: datetime
    updated_at: datetime
    version: int
    keep: Keep = "pending"
    events_topic: str | None = None
    warnings: tuple[str, ...] = ()
    retained_messages: int | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """The first pending delivery of a lane."""

    message_id: str
    attempts: int
    next_attempt_at: datetime | None


@dataclass(frozen=True, slots=True)
class Lane:
    """The lane of a subscription: its state and its backlog; *backlog_has_more* means a longer backlog.

    The lane of a single group also counts the messages *queued* for its members and *in_flight* (about).
    """

    state: str
    backlog: int
    head: Head | None
    backlog_has_more: bool = False
    queued: int | None = None
    in_flight: int | None = None
    filling: bool = False


@dataclass(frozen=True, slots=True)
class BatchedPushes:
    """Limits of one batch to a subscription's endpoint."""

    max_messages: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """The client certificate of pushes: its hexadecimal SHA-256, its subject, its expiry."""

    fingerprint: str
    subject: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription; *version* is what `if_version` compares. A generated *secret* is shown once.

    *signatures* lists the schemes of its pushes over HTTP: `v1` signs with the secret, `v1a` with a key of the service.
    """

    topic: str
    name: str
    endpoint: Endpoint
    filter: AnyFilter | None
    retry: Retry
    timeout_seconds: int
    content_format: ContentFormat
    signatures: tuple[str, ...]
    version: int
    created_at: datetime
    updated_at: datetime
    ordered: bool
    dead_letter_topic: str | None = None
    dead_letter_expired: bool = False
    max_per_second: float | None = None
    start_from: str | None = None
    signature: Signature = "v1"
    public_keys: tuple[str, ...] = ()
    secret: str | None = field(default=None, repr=False)
    former_secret_ends_at: datetime | None = None
    batch: BatchedPushes | None = None
    client_certificate: ClientCertificate | None = None
    state: str | None = None
    state_reason: str | None = None
    warnings: tuple[str, ...] = ()
    lane: Lane | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """The delivery of one message to one subscription, as of now."""

    state: str
    attempts: int
    last_attempt_at: datetime | None = None
    last_outcome: str | None = None
    filter_version: int | None = None
    added_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Message(WithBody):
    """A message or its receipt: the deliveries to its subscribers, and their *counts* by state.

    *body* is None once it is deleted, or where a list leaves it out.
    """

    message_id: str
    topic: str
    state: str
    accepted_at: datetime
    expires_at: datetime
    tags: tuple[str, ...]
    routing_key: str | None
    properties: Mapping[str, str]
    ordering_key: str | None
    content_type: str | None
    subscribers: Mapping[str, Entry]
    body: bytes | None = None
    body_bytes: int | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    replay_of: str | None = None
    filter_errors: tuple[str, ...] = ()
    filter_error_count: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class History:
    """One page of the messages of a topic, the newest first; it may be short, or empty, before the last.

    *archived_until* is when the newest archived message was accepted. Of younger messages only pending ones are shown.
    """

    messages: tuple[Message, ...]
    next_cursor: str | None
    archived_until: datetime | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt; *response* is the beginning of the receiver's response, without secrets."""

    attempt: int
    ended_at: datetime
    took_ms: int
    outcome: str
    status: int | None = None
    response: str | None = None


@dataclass(frozen=True, slots=True)
class Attempted:
    """One delivery with the last of its *attempts*, oldest first."""

    subscription: str
    state: str
    attempts: int
    history: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of a backlog."""

    message_id: str
    state: str
    attempts: int
    next_attempt_at: datetime | None
    expires_at: datetime
    last_attempt_at: datetime | None
    last_outcome: str | None


@dataclass(frozen=True, slots=True)
class PendingHead(Delivery):
    """The first pending delivery of a lane, with its time."""

    accepted_at: datetime


@dataclass(frozen=True, slots=True)
class UrgentLane:
    """A lane that is not active, of any topic; *host* is the host of its pushes, None for a group.

    While the endpoint is unverified, the state is `unverified`, and *state_reason* holds its response.
    """

    topic: str
    subscription: str
    state: str
    head: PendingHead | None
    host: str | None = None
    state_reason: str | None = None


@dataclass(frozen=True, slots=True)
class ActedLane:
    """One lane of an act on many: its head before the act, and its state after it.

    *result* is `planned` (dry run), `changed`, `unchanged` (the act does not fit its state, or it has another head)
    or `failed`. *error* is the problem that says why.
    """

    topic: str
    subscription: str
    result: str
    state: str | None = None
    message_id: str | None = None
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ActedLanes:
    """One part of an act on many lanes: counts, each lane, and the cursor of the next part."""

    matched: int
    planned: int
    changed: int
    unchanged: int
    failed: int
    lanes: tuple[ActedLane, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Version:
    """One version in the history of a subscription's filter."""

    version: int
    filter: AnyFilter | None
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class ShadowCounts:
    """How often the active filter and the shadow agreed, and how they differed."""

    evaluated: int
    both: int
    only_active: int
    only_shadow: int
    neither: int
    errors: int


@dataclass(frozen=True, slots=True)
class ShadowSample:
    """A message that one of the two filters would deliver and the other would not."""

    message_id: str
    way: str


@dataclass(frozen=True, slots=True)
class Shadow:
    """A candidate filter beside the active one, with counts and samples of both."""

    filter: AnyFilter | None
    shadow_version: int
    active_version: int
    since: datetime
    counts: ShadowCounts
    samples: tuple[ShadowSample, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FilterTest:
    """The verdict of a filter on a message (matched, not_matched or error), with an explanation."""

    verdict: str
    explanation: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Host:
    """A host that did not respond in the last hour. An open circuit allows one probe at a time."""

    host: str
    circuit: str
    last_failed_at: datetime | None
    opened_at: datetime | None
    closed_at: datetime | None
    next_probe_at: datetime | None


@dataclass(frozen=True, slots=True)
class Health:
    """The health and version of the service."""

    status: str
    version: str
