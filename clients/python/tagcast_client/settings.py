"""Settings of topics and subscriptions, as keyword arguments and as the API writes them.

`TopicSettings` and `SubscriptionSettings` are for new resources, `TopicChanges` and `SubscriptionChanges` for updates.
In an update None resets a setting to its default, or removes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

from tagcast_client.filters import AnyFilter
from tagcast_client.instants import instant

Ordering = Literal["topic", "key", "none"]
Keep = Literal["pending", "life"]
ContentFormat = Literal["json", "simplified", "cloudevents", "cmq_json", "cmq_simplified"]
Signature = Literal["v1", "v1a"]
Verification = Literal["none", "required"]


class HttpEndpoint(TypedDict):
    """A URL that is sent a POST for every message; a URL alone is the same."""

    protocol: Literal["http", "https"]
    url: str


class SqsEndpoint(TypedDict):
    """A queue, by its URL or its ARN."""

    protocol: Literal["sqs"]
    queue_url: NotRequired[str]
    arn: NotRequired[str]


class LambdaEndpoint(TypedDict):
    """A function, by its name or its ARN."""

    protocol: Literal["lambda"]
    function: str


class PullEndpoint(TypedDict):
    """No endpoint: the subscription is a consumer group, whose members pull."""

    protocol: Literal["pull"]


Endpoint = HttpEndpoint | SqsEndpoint | LambdaEndpoint | PullEndpoint


class BackoffRetry(TypedDict):
    """Retries in order, evenly spaced.

    With the *max_retries* `life` the first message is retried until it expires, and the waits double up to
    *max_interval_seconds*.
    """

    strategy: Literal["BACKOFF_RETRY"]
    max_retries: NotRequired[int | Literal["life"]]
    interval_seconds: NotRequired[int | None]
    max_interval_seconds: NotRequired[int | None]


class DecayRetry(TypedDict):
    """Retries after 1, 2, 4, … seconds, up to the longest interval; all messages wait until the first one succeeds."""

    strategy: Literal["EXPONENTIAL_DECAY_RETRY"]
    max_retries: NotRequired[int]
    max_interval_seconds: NotRequired[int]


class IndependentRetry(TypedDict):
    """Retries after 1, 2, 4, … seconds, up to the longest interval; each message is retried by itself."""

    strategy: Literal["INDEPENDENT_RETRY"]
    max_retries: NotRequired[int]
    max_interval_seconds: NotRequired[int]


Retry = BackoffRetry | DecayRetry | IndependentRetry


class Batch(TypedDict, total=False):
    """Limits of one batch to the endpoint."""

    max_messages: int
    max_bytes: int


class Certificate(TypedDict):
    """A client certificate with its chain, and its private key, both as PEM."""

    certificate: str
    private_key: str


class TopicSettings(TypedDict, total=False):
    """The settings of a topic."""

    retention_seconds: int
    max_message_bytes: int
    ordering: Ordering
    keep: Keep
    events_topic: str


class TopicChanges(TypedDict, total=False):
    """Settings of a topic to update; None resets one to its default."""

    retention_seconds: int | None
    max_message_bytes: int | None
    ordering: Ordering | None
    keep: Keep | None
    events_topic: str | None


class SubscriptionSettings(TypedDict, total=False):
    """The settings of a subscription besides its endpoint; *filter* None matches everything.

    With the *secret* `generate` the service generates one, and the answer shows it once. Pushes over HTTP carry the
    *headers* besides the service's own. Pushes over https present the *client_certificate*. *start_from* is the start
    of a new group: `latest`, `earliest`, or an instant. An *ordered* subscription gets the messages of an order one by
    one; without *retry* the first one is retried until it expires.
    """

    filter: AnyFilter | None
    retry: Retry
    timeout_seconds: int
    content_format: ContentFormat
    secret: str
    headers: Mapping[str, str]
    client_certificate: Certificate
    signature: Signature
    ordered: bool
    dead_letter_topic: str
    dead_letter_expired: bool
    start_from: str | datetime
    max_per_second: float
    batch: Batch
    verification: Verification


class NamedSubscription(SubscriptionSettings):
    """A subscription of a list, with its name and its endpoint."""

    name: str
    endpoint: str | Endpoint


class SubscriptionChanges(TypedDict, total=False):
    """Settings of a subscription to update; None resets one to its default, or removes it.

    *headers* are merged with the present headers: None removes one.
    """

    endpoint: str | Endpoint
    filter: AnyFilter | None
    retry: Retry | None
    timeout_seconds: int | None
    content_format: ContentFormat | None
    secret: str | None
    headers: Mapping[str, str | None] | None
    client_certificate: Certificate | None
    signature: Signature | None
    ordered: bool | None
    dead_letter_topic: str | None
    dead_letter_expired: bool | None
    start_from: str | datetime | None
    max_per_second: float | None
    batch: Batch | None
    verification: Verification | None


def as_json(settings: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """Return settings as the API takes them: a URL becomes an endpoint, an instant its text.

    Raises TypeError for a name that *kind* does not have, and ValueError for an instant without a time zone.

    >>> as_json({"max": 60}, Certificate)
    Traceback (most recent call last):
        ...
    TypeError: 'max' is not a setting: allowed are certificate, private_key
    """
    known = kind.__annotations__
    if others := sorted(settings.keys() - known.keys()):
        raise TypeError(f"{', '.join(map(repr, others))} is not a setting: allowed are {', '.join(sorted(known))}")
    found = with_endpoint(settings)
    if found.get("start_from") is not None:
        found["start_from"] = instant(found["start_from"])
    return found


def with_endpoint(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings whose endpoint, if it is a URL, is an object as the API has it.

    >>> with_endpoint({"name": "a", "endpoint": "https://a.test/"})["endpoint"]
    {'protocol': 'https', 'url': 'https://a.test/'}
    """
    endpoint = settings.get("endpoint")
    if not isinstance(endpoint, str):
        return dict(settings)
    return {**settings, "endpoint": {"protocol": endpoint.partition(":")[0].lower(), "url": endpoint}}
