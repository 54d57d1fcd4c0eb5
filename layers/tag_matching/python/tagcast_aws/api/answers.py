"""The shapes of answers: what the type checker holds the code to, and what the API document tells."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class AcceptedAnswer(TypedDict):
    """An accepted message."""

    message_id: str
    accepted_at: str
    expires_at: str
    matched: int


class RefusedAnswer(TypedDict):
    """A message of a batch that was refused: its problem."""

    error: dict[str, Any]


class BatchAnswer(TypedDict):
    """The results of a batch, in its order."""

    results: list[AcceptedAnswer | RefusedAnswer]


class TopicAnswer(TypedDict):
    """A topic; ``retained_messages`` where one topic is asked for."""

    name: str
    retention_seconds: int
    max_message_bytes: int
    ordering: str
    subscriptions: int
    created_at: str
    updated_at: str
    retained_messages: NotRequired[int]


class TopicsAnswer(TypedDict):
    """One page of topics."""

    topics: list[TopicAnswer]
    next_cursor: str | None


class HeadAnswer(TypedDict):
    """The head of a backlog."""

    message_id: str
    attempts: int
    next_attempt_at: str | None


class LaneAnswer(TypedDict):
    """The state of a lane; lists count a backlog to 1,000 only, and say so by ``backlog_has_more``."""

    state: str
    backlog: int
    head: HeadAnswer | None
    backlog_has_more: NotRequired[bool]


class SubscriptionAnswer(TypedDict):
    """A subscription with its lane, as far as that was looked at."""

    topic: str
    name: str
    endpoint: dict[str, str]
    filter: dict[str, Any] | None
    retry: dict[str, Any]
    timeout_seconds: int
    content_format: str
    version: int
    created_at: str
    updated_at: str
    warnings: NotRequired[list[str]]
    lane: NotRequired[LaneAnswer]


class SubscriptionsAnswer(TypedDict):
    """One page of subscriptions."""

    subscriptions: list[SubscriptionAnswer]
    next_cursor: str | None


class DeliveryAnswer(TypedDict):
    """One owed delivery."""

    message_id: str
    state: str
    attempts: int
    next_attempt_at: str | None
    expires_at: str
    last_attempt_at: str | None
    last_outcome: str | None


class BacklogAnswer(TypedDict):
    """One page of a backlog, in its order."""

    deliveries: list[DeliveryAnswer]
    next_cursor: str | None


class VersionAnswer(TypedDict):
    """One version of a filter."""

    version: int
    filter: dict[str, Any] | None
    changed_at: str


class VersionsAnswer(TypedDict):
    """The kept versions of a filter, newest first."""

    versions: list[VersionAnswer]


class ShadowCounts(TypedDict):
    """How many messages the active filter and the shadow saw alike and differently since both are as they are."""

    evaluated: int
    both: int
    only_active: int
    only_shadow: int
    neither: int
    errors: int


class ShadowSample(TypedDict):
    """A message that only one of both filters matches."""

    message_id: str
    way: Literal["only_active", "only_shadow"]


class ShadowAnswer(TypedDict):
    """A shadow with what it said beside the active filter of ``active_version``; it is eventually complete."""

    filter: dict[str, Any] | None
    shadow_version: int
    active_version: int
    since: str
    counts: ShadowCounts
    samples: list[ShadowSample]
    warnings: NotRequired[list[str]]


class EntryAnswer(TypedDict):
    """One entry of a state map."""

    state: str
    attempts: int
    last_attempt_at: NotRequired[str]
    last_outcome: NotRequired[str]
    filter_version: NotRequired[int]


class MessageAnswer(TypedDict):
    """A message or its receipt, with its state map; its body is text, base64, or null once it is gone.

    Lists have ``body_bytes`` instead, unless bodies were asked for.
    """

    body: NotRequired[str | None]
    body_base64: NotRequired[str]
    body_bytes: NotRequired[int]

    message_id: str
    topic: str
    state: str
    accepted_at: str
    expires_at: str
    tags: list[str]
    routing_key: str | None
    properties: dict[str, str]
    ordering_key: str | None
    content_type: str | None
    subscribers: dict[str, EntryAnswer]
    replay_of: NotRequired[str]
    filter_errors: NotRequired[list[str]]
    filter_error_count: NotRequired[int]


class MessagesAnswer(TypedDict):
    """One page of retained messages, oldest first."""

    messages: list[MessageAnswer]
    next_cursor: str | None


class LanesAnswer(TypedDict):
    """The subscriptions that a re-push attempts now."""

    lanes: list[str]


class FilterTestAnswer(TypedDict):
    """What a filter says of a message, and why."""

    verdict: Literal["matched", "not_matched", "error"]
    explanation: dict[str, Any]


class HealthAnswer(TypedDict):
    """That the service answers."""

    status: Literal["ok"]
    version: str
