"""The settings of a subscription: endpoint, content format, retries and others. Durations (``_s``) are in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated
from urllib.parse import unquote

from tagcast.setting import NAME, Only, Setting

ENQUEUED_AT_ONCE = 10
"""A batch request to a group's queue takes at most ten messages."""
DECAY_WINDOW = 100
"""The maximum deliveries in flight to one endpoint, if their order does not matter. CMQ has the same maximum."""
UNVERIFIED = "unverified"
"""The outcome of a delivery that waits until its endpoint is verified."""


class Protocol(StrEnum):
    """The protocol of an endpoint."""

    HTTP = "http"
    HTTPS = "https"
    SQS = "sqs"
    LAMBDA = "lambda"
    PULL = "pull"


class ContentFormat(StrEnum):
    """The content of a push: the JSON envelope, the bare body, CloudEvents 1.0, or CMQ's forms of the first two."""

    JSON = "json"
    SIMPLIFIED = "simplified"
    CLOUDEVENTS = "cloudevents"
    CMQ_JSON = "cmq_json"
    CMQ_SIMPLIFIED = "cmq_simplified"


class Signature(StrEnum):
    """The signatures of a push over HTTP.

    v1: by the subscription's secret. v1a: by the secret and by the subscription's ed25519 keys.
    """

    V1 = "v1"
    V1A = "v1a"


class Strategy(StrEnum):
    """The retry strategies. Two are from CMQ's topics. Under INDEPENDENT_RETRY no delivery waits for another."""

    BACKOFF_RETRY = "BACKOFF_RETRY"
    EXPONENTIAL_DECAY_RETRY = "EXPONENTIAL_DECAY_RETRY"
    INDEPENDENT_RETRY = "INDEPENDENT_RETRY"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint of a subscription: *target* is a URL, a queue URL or ARN, or a function name or ARN.

    The *target* of a consumer group is empty, because members pull.
    """

    protocol: Protocol
    target: str


TIMEOUT_S_MIN, TIMEOUT_S_DEFAULT, TIMEOUT_S_MAX = 1, 15, 30
RATE_MIN, RATE_MAX = 0.01, 1_000
DECAY_INTERVAL_S_MAX = 512
"""The default maximum of waits that double, as in CMQ. Only BACKOFF_RETRY allows a larger maximum."""
RETRIES_FOR_LIFE = 86_400
"""More retries than fit into a message's life of a day, because each wait takes at least a second."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When, and how often, a failed delivery is retried (docs/semantics.md, Retries).

    Under BACKOFF_RETRY each wait is *interval_s*, or 10-20 s at random if *interval_s* is None. Under the other two
    strategies the waits double from 1 s up to *interval_s_max*. They also double under BACKOFF_RETRY with
    ``RETRIES_FOR_LIFE``, from *interval_s* on, or from 1 s if *interval_s* is None.
    """

    strategy: Strategy
    max_retries: int
    interval_s: int | None = None
    interval_s_max: int = DECAY_INTERVAL_S_MAX

    @property
    def is_for_life(self) -> bool:
        """Whether a failing delivery is retried until its message expires."""
        return self.max_retries == RETRIES_FOR_LIFE


IN_ORDER = RetryPolicy(Strategy.BACKOFF_RETRY, RETRIES_FOR_LIFE)
"""The default retries of an ordered subscription."""


@dataclass(frozen=True, slots=True)
class FormerSecret:
    """A secret from before a rotation. It also signs pushes until the instant *until*."""

    secret: str = field(repr=False)
    until: int


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """The public parts of a client certificate: its SHA-256 in hexadecimal, its subject, and its expiry."""

    fingerprint: str
    subject: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class Batching:
    """The maximum messages and bytes of one request to the endpoint. A message with more bytes is pushed alone."""

    messages_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class SubscriptionSettings:
    """The settings of a subscription, declared once for API, client, command line and console (`tagcast.setting`).

    *filter* is the JSON form of the filter, canonical in the table. None matches everything. Fields without ``repr``
    are secrets: the service never shows or archives secrets.

    - *sealed*: the reference to the row with the encrypted secrets. Only pushes, verifications and updates decrypt the
      secrets. The service generates the secret of a group, which signs receipt handles and is not sealed.
    - *ordered*: only a group sets this field. A subscription with ordered pushes has the strategy BACKOFF_RETRY.
    - *start_from*: the instant from which a new group gets messages; None means that the group gets no older messages.
    - *unverified*: the reason why the endpoint is not verified; None means that the endpoint is verified.
    - *allowed_per_second*: the rate that the endpoint allowed when it was verified.
    - *headers*: the values by the names of the headers, in lower case.
    - *client_certificate*: the public parts of the certificate. *client_key*: the certificate, its chain and its
      private key, as PEM.
    """

    endpoint: Annotated[
        Endpoint, Setting("The endpoint that messages are pushed to, or pull for a group.", is_shown=True)
    ]
    filter: Annotated[
        Mapping[str, object] | None, Setting("The messages that match; null matches everything.", is_shown=True)
    ]
    retry: Annotated[RetryPolicy, Setting("How often and when a failed delivery is retried.", is_shown=True)]
    timeout_s: Annotated[
        int,
        Setting(
            "Timeout of one attempt, 1 s to 30 s.",
            at_least=TIMEOUT_S_MIN,
            at_most=TIMEOUT_S_MAX,
            only=Only.PUSHES,
            is_shown=True,
            section="Pushes",
        ),
    ] = TIMEOUT_S_DEFAULT
    content_format: Annotated[
        ContentFormat,
        Setting("Format of the pushed message.", only=Only.PUSHES, is_shown=True, option="format", section="Pushes"),
    ] = ContentFormat.JSON
    secret: Annotated[
        str | None, Setting("Secret that signs the pushes: whsec_…, or generate (shown once).", only=Only.PUSHES)
    ] = field(default=None, repr=False)
    ordered: Annotated[
        bool,
        Setting(
            "Deliver messages in order, one by one; retry the first until it expires.",
            is_shown=True,
            section="Order and retries",
        ),
    ] = False
    dead_letter_topic: Annotated[
        str | None,
        Setting(
            "Publish discarded messages to this topic.",
            pattern=NAME,
            format="other-topic",
            metavar="TOPIC",
            section="Dead letters",
        ),
    ] = None
    dead_letter_expired: Annotated[
        bool, Setting("Publish expired messages to the dead-letter topic, too.", section="Dead letters")
    ] = False
    max_per_second: Annotated[
        float | None,
        Setting(
            "Maximum attempts per second, 0.01 to 1,000; default: no limit.",
            at_least=RATE_MIN,
            at_most=RATE_MAX,
            only=Only.PUSHES,
            metavar="RATE",
            section="Pushes",
        ),
    ] = None
    start_from: Annotated[
        int | None,
        Setting(
            "Start of a new group: latest, earliest, or an instant.", only=Only.GROUPS, option="from", metavar="WHEN"
        ),
    ] = None
    batching: Annotated[
        Batching | None, Setting("Limits of one batch to the endpoint.", wire="batch", only=Only.PUSHES)
    ] = None
    sealed: str | None = None
    formers: tuple[FormerSecret, ...] = field(default=(), repr=False)
    signature: Annotated[
        Signature,
        Setting(
            "Signature of pushes: v1 by the secret; v1a also by a key of the service.",
            only=Only.PUSHES,
            section="Secrets",
        ),
    ] = Signature.V1
    unverified: str | None = None
    allowed_per_second: float | None = None
    headers: Annotated[
        Mapping[str, str] | None, Setting("Headers of every push over HTTP (write-only).", only=Only.PUSHES)
    ] = field(default=None, repr=False)
    client_certificate: Annotated[
        ClientCertificate | None, Setting("Client certificate for pushes over https.", only=Only.PUSHES)
    ] = None
    client_key: str | None = field(default=None, repr=False)

    def signing_secrets(self, now: int) -> tuple[str, ...]:
        """Return the secrets that sign a push at *now*, the current one first; none if there is no current secret."""
        if self.secret is None:
            return ()
        return (self.secret, *(former.secret for former in self.formers if now < former.until))

    @property
    def is_group(self) -> bool:
        """Whether this is a consumer group, whose members pull."""
        return self.endpoint.protocol is Protocol.PULL

    @property
    def keeps_order(self) -> bool:
        """Whether the subscriber gets messages in order (docs/semantics.md, Delivery)."""
        return self.ordered or (not self.is_group and self.retry.strategy is Strategy.BACKOFF_RETRY)

    @property
    def is_independent(self) -> bool:
        """Whether each delivery has its own retries, and waits for no other (docs/semantics.md, Delivery)."""
        return not self.is_group and self.retry.strategy is Strategy.INDEPENDENT_RETRY

    @property
    def rate(self) -> float | None:
        """The lower of *max_per_second* and *allowed_per_second*; None if neither is set."""
        return min((each for each in (self.max_per_second, self.allowed_per_second) if each is not None), default=None)

    @property
    def window(self) -> int:
        """The maximum deliveries in flight after a successful response (docs/semantics.md, Delivery)."""
        if self.is_group:
            return ENQUEUED_AT_ONCE
        return 1 if self.keeps_order else DECAY_WINDOW

    def drained_at_once(self, got_through: int) -> int:
        """Return how many backlogged deliveries to attempt together after *got_through* succeeded together.

        Without batches or a rate, the number is the window. With batches the number begins at one and doubles, so that
        a message that makes a batch fail is soon found. With a rate the number also doubles, so that a worker reads few
        messages that must still wait for the rate.
        """
        if self.batching is None and self.rate is None:
            return self.window
        at_most = self.window if self.batching is None else max(self.window, self.batching.messages_max)
        return min(max(1, 2 * got_through), at_most)


def has_secrets(settings: SubscriptionSettings) -> bool:
    """Return whether *settings* have a secret, i.e. a value in a field without ``repr``."""
    return any(getattr(settings, each.name) for each in fields(settings) if not each.repr)


def shared_secrets(settings: SubscriptionSettings) -> tuple[str, ...]:
    """Return the secrets that the receiver also knows, and so could repeat in a response: all but the private key.

    The values in the query of the URL count as secrets, because some receivers take their keys there.
    """
    present = () if settings.secret is None else (settings.secret,)
    in_query = (each.partition("=") for each in settings.endpoint.target.partition("?")[2].split("&"))
    return (
        *present,
        *(settings.headers or {}).values(),
        *(former.secret for former in settings.formers),
        *(unquote(value or name) for name, _, value in in_query),
    )
