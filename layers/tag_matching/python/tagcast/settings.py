"""What a subscriber chooses: where its messages go, how they look, how often they are tried again.

Durations end in ``_s`` and are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

ENQUEUED_AT_ONCE = 10
"""As many as one request takes into the queue of a group."""
DECAY_WINDOW = 100
"""As many as CMQ pushes at the same time."""
UNVERIFIED = "unverified"
"""Why a delivery waits whose endpoint has not agreed yet to be pushed to."""


class Protocol(StrEnum):
    """How an endpoint is reached."""

    HTTP = "http"
    HTTPS = "https"
    SQS = "sqs"
    LAMBDA = "lambda"
    PULL = "pull"


class ContentFormat(StrEnum):
    """What a push carries: the JSON envelope, the bare body, CloudEvents 1.0, or CMQ's forms of the first two."""

    JSON = "json"
    SIMPLIFIED = "simplified"
    CLOUDEVENTS = "cloudevents"
    CMQ_JSON = "cmq_json"
    CMQ_SIMPLIFIED = "cmq_simplified"


class Signature(StrEnum):
    """What a push over HTTP is signed with: its secret if it has one, or also its key of the service."""

    V1 = "v1"
    V1A = "v1a"


class Strategy(StrEnum):
    """The notify strategies of CMQ topic mode, and one under which no delivery waits for another."""

    BACKOFF_RETRY = "BACKOFF_RETRY"
    EXPONENTIAL_DECAY_RETRY = "EXPONENTIAL_DECAY_RETRY"
    INDEPENDENT_RETRY = "INDEPENDENT_RETRY"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a subscription delivers: *target* is a URL, a queue URL or ARN, or a function name or ARN.

    The members of a group come for what they get: its target is empty.
    """

    protocol: Protocol
    target: str


DECAY_INTERVAL_S_MAX = 512
"""Delays that double do so up to this, as those of CMQ's EXPONENTIAL_DECAY_RETRY do; a subscriber may choose less."""
RETRIES_FOR_LIFE = 86_400
"""More retries than a message can have in its life of a day: a wait takes a second and more."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and when a failed delivery is attempted again (docs/semantics.md, Retries).

    *interval_s* (BACKOFF) ``None`` means uniform in 10-20 s. *interval_s_max* bounds the waits that double: those of
    DECAY and INDEPENDENT, and of BACKOFF with ``RETRIES_FOR_LIFE``, which begin with *interval_s* or 1 s.
    """

    strategy: Strategy
    max_retries: int
    interval_s: int | None = None
    interval_s_max: int = DECAY_INTERVAL_S_MAX

    @property
    def is_for_life(self) -> bool:
        """Say whether only the end of its life ends a delivery that keeps failing."""
        return self.max_retries == RETRIES_FOR_LIFE


@dataclass(frozen=True, slots=True)
class FormerSecret:
    """A secret that was exchanged for another one: pushes are signed with it, too, *until* that instant."""

    secret: str = field(repr=False)
    until: int


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """What anybody may know of the certificate that pushes present: its hexadecimal SHA-256, whose it is, its end."""

    fingerprint: str
    subject: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class Batching:
    """The most messages and bytes of one request to the endpoint. One message alone may have more bytes."""

    messages_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class SubscriptionSettings:
    """What a subscriber chooses. *filter* is its JSON form, canonical once it is stored, or None for everything.

    Fields without ``repr`` are secrets: nothing shows them, and the archive is not told of them.

    - *sealed*: a mark of the row that has the secrets, encrypted. They are not in this value until they are opened.
      A group's secret is made by the service and signs receipt handles.
    - *ordered*, *start_from*: of groups only. A new group gets the kept messages that were accepted at *start_from*
      or later; None: no older messages.
    - *dead_letter_topic*: where discarded messages are published, and expired ones with *dead_letter_expired*.
    - *max_per_second*, *batching*: of subscriptions with pushes. The most requests a second, None: no limit; several
      messages in a request, None: one.
    - *unverified*: why the endpoint may not be pushed to, by its last answer; None: it may.
    - *allowed_per_second*: the rate that the endpoint agreed to. It bounds *max_per_second*.
    - *headers*: what every request over HTTP has besides the service's own headers, by their names in lower case.
    - *client_certificate*: what answers show of it. *client_key*: certificate, chain and private key, as PEM.
    """

    endpoint: Endpoint
    filter: Mapping[str, object] | None
    retry: RetryPolicy
    timeout_s: int
    content_format: ContentFormat
    secret: str | None = field(repr=False)
    ordered: bool = False
    dead_letter_topic: str | None = None
    dead_letter_expired: bool = False
    max_per_second: float | None = None
    start_from: int | None = None
    batching: Batching | None = None
    sealed: str | None = None
    formers: tuple[FormerSecret, ...] = field(default=(), repr=False)
    signature: Signature = Signature.V1
    unverified: str | None = None
    allowed_per_second: float | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    client_certificate: ClientCertificate | None = None
    client_key: str | None = field(default=None, repr=False)

    def signing_secrets(self, now: int) -> tuple[str, ...]:
        """Return the secrets that a push is signed with at *now*, the present one first."""
        if self.secret is None:
            return ()
        return (self.secret, *(former.secret for former in self.formers if now < former.until))

    @property
    def is_group(self) -> bool:
        """Say whether this is a group, whose members pull."""
        return self.endpoint.protocol is Protocol.PULL

    @property
    def keeps_order(self) -> bool:
        """Say whether messages reach the subscriber in their order (docs/semantics.md, Delivery)."""
        return self.ordered or (not self.is_group and self.retry.strategy is Strategy.BACKOFF_RETRY)

    @property
    def is_independent(self) -> bool:
        """Say whether each delivery is retried for itself, and none waits for another (docs/semantics.md, Delivery)."""
        return not self.is_group and self.retry.strategy is Strategy.INDEPENDENT_RETRY

    @property
    def window(self) -> int:
        """Return how many deliveries may be in flight once the receiver answered well (docs/semantics.md, Delivery)."""
        if self.is_group:
            return ENQUEUED_AT_ONCE
        return 1 if self.keeps_order else DECAY_WINDOW

    def drained_at_once(self, got_through: int) -> int:
        """Return how many deliveries of a backlog are attempted together after *got_through* succeeded together.

        In batches that doubles from one on, so that a message which makes a batch fail is soon found; under a rate, so
        that a worker reads few more messages than it may push.
        """
        if self.batching is None and self.max_per_second is None:
            return self.window
        at_most = self.window if self.batching is None else max(self.window, self.batching.messages_max)
        return min(max(1, 2 * got_through), at_most)


def has_secrets(settings: SubscriptionSettings) -> bool:
    """Say whether anything of *settings* is a secret: what is left out of ``repr``."""
    return any(getattr(settings, each.name) for each in fields(settings) if not each.repr)


def secrets_told(settings: SubscriptionSettings) -> tuple[str, ...]:
    """Return the secrets in *settings* that the receiver knows, too, and could repeat: all but a private key."""
    present = () if settings.secret is None else (settings.secret,)
    return (*present, *(settings.headers or {}).values(), *(former.secret for former in settings.formers))
