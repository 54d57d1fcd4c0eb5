"""The service's resources as immutable values: topics, messages, subscriptions and their parts.

Instants end in ``_at`` and are milliseconds since 1970 UTC; durations end in ``_s`` and are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from tagcast.ids import subscription_id
from tagcast.outcome import Outcome as Outcome
from tagcast.outcome import PastAttempt as PastAttempt
from tagcast.setting import Setting
from tagcast.subscription_settings import Batching as Batching
from tagcast.subscription_settings import ContentFormat as ContentFormat
from tagcast.subscription_settings import Endpoint as Endpoint
from tagcast.subscription_settings import Protocol as Protocol
from tagcast.subscription_settings import RetryPolicy as RetryPolicy
from tagcast.subscription_settings import Strategy as Strategy
from tagcast.subscription_settings import SubscriptionSettings as SubscriptionSettings
from tagcast.topic_settings import BODY_BYTES_MAX as BODY_BYTES_MAX
from tagcast.topic_settings import RETENTION_S_MAX as RETENTION_S_MAX
from tagcast.topic_settings import FilterType as FilterType
from tagcast.topic_settings import Keep as Keep
from tagcast.topic_settings import Ordering as Ordering
from tagcast.topic_settings import TopicSettings as TopicSettings
from tagcast.trace_context import TraceContext, make_trace

CONTENT_TYPE_LENGTH_MAX = 128
CONTENT_TYPE = r"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+[\x20-\x7e]*$"


class EntryState(StrEnum):
    """The state of a delivery; the last five are terminal.

    Rows store the position of a state in this enumeration, so add new states only at the end.
    """

    PENDING = "pending"
    BLOCKED = "blocked"
    DELIVERED = "delivered"
    DISCARDED = "discarded"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FILTERED = "filtered"

    @property
    def is_terminal(self) -> bool:
        """Whether a delivery in this state never changes again."""
        return self not in (EntryState.PENDING, EntryState.BLOCKED)


class LaneState(StrEnum):
    """The state of a subscription's lane. Only lanes that are not active have a row.

    In a retrying lane, each delivery waits only for its own next attempt.
    """

    ACTIVE = "active"
    BLOCKED = "blocked"
    LOST_CONTACT = "lost_contact"
    RETRYING = "retrying"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    REMOVED = "removed"

    @property
    def is_asleep(self) -> bool:
        """Whether the lane is paused or suspended, and so makes no attempts until it is resumed."""
        return self in (LaneState.PAUSED, LaneState.SUSPENDED)


@dataclass(frozen=True, slots=True)
class Topic:
    """A named stream of messages. *topic_id* is never reused, even by a later topic of the same name.

    Each change of a subscription raises *subscriptions_version* by one and appends the subscription's name to *recent*,
    which has only the last names. *unindexed_characters* is the sum over all filters of
    :func:`tagcast.filters.index.parted_index.unindexed_characters`. Each new group with *start_from* moves
    *filling_quota_until*, at most to a day from now (:func:`tagcast.registry.groups.count_filling`). Only a topic
    created through the CMQ endpoint has a *filter_type*.
    """

    name: str
    topic_id: str
    settings: TopicSettings
    created_at: int
    updated_at: int
    subscriptions_version: int = 0
    subscription_count: int = 0
    next_ordinal: int = 0
    unindexed_characters: int = 0
    filling_quota_until: int = 0
    recent: tuple[str, ...] = ()
    filter_type: FilterType | None = None

    @property
    def version(self) -> int:
        """The version of the settings, which grows with every change."""
        return self.updated_at


@dataclass(frozen=True, slots=True)
class Subscription:
    """A named subscription of a topic: its settings and their version.

    *function_until*: the instant at which another filter last replaced a filter function; None if that never happened.
    """

    topic: str
    name: str
    topic_id: str
    ordinal: int
    settings: SubscriptionSettings
    version: int
    created_at: int
    updated_at: int
    function_until: int | None = None

    @property
    def subscription_id(self) -> str:
        """The id in the keys of lanes and pending deliveries. It is never reused."""
        return subscription_id(self.topic_id, self.ordinal)


@dataclass(frozen=True, slots=True)
class Draft:
    """A message as its producer sends it, before the service accepts it.

    Each attribute is declared once (`tagcast.setting`), for requests, answers, envelopes, rows and the archive.
    """

    body: bytes
    is_text: bool = True
    tags: Annotated[tuple[str, ...], Setting("Tags that filters match.", is_shown=True)] = ()
    routing_key: Annotated[
        str | None, Setting("Routing key: words separated by dots, e.g. order.new.eu.", is_shown=True)
    ] = None
    properties: Annotated[Mapping[str, str], Setting("Properties that SQL92 filters read.", is_shown=True)] = field(
        default_factory=dict
    )
    ordering_key: Annotated[str | None, Setting("Ordering key, for a topic ordered by key.", is_shown=True)] = None
    content_type: Annotated[
        str | None,
        Setting("Media type of the body.", at_most=CONTENT_TYPE_LENGTH_MAX, pattern=CONTENT_TYPE, is_shown=True),
    ] = None
    trace: TraceContext | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """An accepted message. It is immutable, and its expiry never changes.

    *replay_of* is the id of the message that this message repeats; None if it is no replay.
    """

    topic: str
    message_id: str
    draft: Draft
    accepted_at: int
    expires_at: int
    replay_of: str | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags in the producer's order, without repetitions."""
        return self.draft.tags

    @property
    def routing_key(self) -> str | None:
        """The routing key, or None."""
        return self.draft.routing_key

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties that SQL92 filters read."""
        return self.draft.properties

    @property
    def body(self) -> bytes:
        """The bytes of the body. Event patterns read them as JSON."""
        return self.draft.body

    @property
    def ordering_key(self) -> str | None:
        """The ordering key, or None."""
        return self.draft.ordering_key

    @property
    def trace(self) -> TraceContext:
        """The trace context: the producer's, or else one that the service derives from the message."""
        return self.draft.trace or make_trace(self.topic, self.message_id)

    def is_expired(self, now: int) -> bool:
        """Return whether the message has expired at *now*. No attempt starts at or after its expiry."""
        return now >= self.expires_at


@dataclass(frozen=True, slots=True)
class Push:
    """One attempt, with everything that an endpoint adapter needs. Attempts are numbered from 1 (*attempt*)."""

    subscription: Subscription
    message: Message
    attempt: int


@dataclass(frozen=True, slots=True)
class PushBatch:
    """Attempts of one subscription in one request, in order. *batch_id* is the id of the request."""

    subscription: Subscription
    pushes: tuple[Push, ...]
    batch_id: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One delivery of the state map, as the API shows it.

    *filter_version* is the version of the filter that matched; None if it was not looked up. *added_at* is the time at
    which a late entry was added, for a group created after the message. *history* lists the last stored attempts;
    comparisons ignore *history*.
    """

    state: EntryState
    attempts: int = 0
    last_attempt_at: int | None = None
    last_outcome: str | None = None
    filter_version: int | None = None
    added_at: int | None = None
    history: tuple[PastAttempt, ...] = field(default=(), compare=False, repr=False)
