"""The body of a subscription: endpoint, filter, notify strategy, format and secret."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag
from pydantic_core import PydanticCustomError
from tagcast.errors import Fault
from tagcast.model import ContentFormat, Endpoint, Protocol, RetryPolicy, Strategy, SubscriptionSettings

from tagcast_aws.api import limits
from tagcast_aws.api.http.body import Body
from tagcast_aws.api.publishing.body import filter_faults


def _secret(text: str) -> str:
    try:
        key = base64.b64decode(text.removeprefix("whsec_").encode(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith("whsec_") or not limits.SECRET_BYTES_MIN <= len(key) <= limits.SECRET_BYTES_MAX:
        span = f"{limits.SECRET_BYTES_MIN}-{limits.SECRET_BYTES_MAX}"
        raise PydanticCustomError("secret", f"must be whsec_ and the base64 of {span} bytes")
    return text


_LONGEST_S = limits.DECAY_INTERVAL_S_MAX
Timeout = Annotated[int, Field(ge=limits.TIMEOUT_S_MIN, le=limits.TIMEOUT_S_MAX)]
Secret = Annotated[str, AfterValidator(_secret), Field(json_schema_extra={"writeOnly": True})]
Url = Annotated[str, StringConstraints(max_length=limits.URL_LENGTH_MAX)]
Retries = Annotated[int, Field(ge=0, le=limits.DECAY_RETRIES_MAX)]


_UNSAFE = frozenset('\\<>"')


class HttpEndpoint(Body):
    """A URL that is sent a POST for every message."""

    protocol: Literal["http", "https"]
    url: Url


class SqsEndpoint(Body):
    """A queue, by its URL or its ARN."""

    protocol: Literal["sqs"]
    queue_url: Url | None = None
    arn: Annotated[str, StringConstraints(pattern=limits.QUEUE_ARN)] | None = None


class LambdaEndpoint(Body):
    """A function, by its name or its ARN."""

    protocol: Literal["lambda"]
    function: Annotated[str, StringConstraints(pattern=limits.FUNCTION)]


class BackoffRetry(Body):
    """A few retries, evenly spaced; without an interval each waits 10-20 seconds."""

    strategy: Literal["BACKOFF_RETRY"]
    max_retries: Annotated[int, Field(ge=0, le=limits.BACKOFF_RETRIES_MAX)] = limits.BACKOFF_RETRIES_DEFAULT
    interval_seconds: Annotated[int, Field(ge=1, le=limits.BACKOFF_INTERVAL_S_MAX)] | None = None


class DecayRetry(Body):
    """Retries after 1, 2, 4, … seconds up to the longest interval."""

    strategy: Literal["EXPONENTIAL_DECAY_RETRY"] = "EXPONENTIAL_DECAY_RETRY"
    max_retries: Retries = limits.DECAY_RETRIES_MAX
    max_interval_seconds: Annotated[int, Field(ge=1, le=limits.DECAY_INTERVAL_S_MAX)] = limits.DECAY_INTERVAL_S_MAX


def _strategy(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return str(getattr(value, "strategy", Strategy.EXPONENTIAL_DECAY_RETRY.value))
    strategy = value.get("strategy", Strategy.EXPONENTIAL_DECAY_RETRY.value)
    return strategy if isinstance(strategy, str) else ""


class SubscriptionBody(Body):
    """A subscription; what is left out has its default."""

    unions: ClassVar[Mapping[str, str]] = {"endpoint": "protocol", "retry": "strategy"}

    endpoint: Annotated[HttpEndpoint | SqsEndpoint | LambdaEndpoint, Field(discriminator="protocol")]
    filter: dict[str, Any] | None = None
    retry: Annotated[
        Annotated[BackoffRetry, Tag("BACKOFF_RETRY")] | Annotated[DecayRetry, Tag("EXPONENTIAL_DECAY_RETRY")],
        Discriminator(_strategy),
    ] = DecayRetry()
    timeout_seconds: Annotated[int, Field(ge=limits.TIMEOUT_S_MIN, le=limits.TIMEOUT_S_MAX)] = limits.TIMEOUT_S_DEFAULT
    content_format: Literal["json", "simplified", "cloudevents"] = "json"
    secret: Annotated[str, AfterValidator(_secret), Field(json_schema_extra={"writeOnly": True})] | None = None

    @classmethod
    def cross_faults(cls, value: Mapping[str, object]) -> list[Fault]:
        """Add the faults of the filter and those that cross the endpoint's fields."""
        endpoint = value.get("endpoint")
        crossed = _endpoint_faults(endpoint) if isinstance(endpoint, Mapping) else []
        return [fault.under("/endpoint") for fault in crossed] + filter_faults(value.get("filter"))

    def settings(self) -> SubscriptionSettings:
        """Return the settings as the core knows them."""
        return SubscriptionSettings(
            endpoint=Endpoint(Protocol(self.endpoint.protocol), _target(self.endpoint)),
            filter=self.filter,
            retry=_policy(self.retry),
            timeout_s=self.timeout_seconds,
            content_format=ContentFormat(self.content_format),
            secret=self.secret,
        )


def _endpoint_faults(endpoint: Mapping[str, object]) -> list[Fault]:
    protocol, url = endpoint.get("protocol"), endpoint.get("url")
    match protocol:
        case "http" | "https" if isinstance(url, str):
            refusal = url_refusal(url, (str(protocol),))
            return [Fault(refusal, "/url")] if refusal else []
        case "sqs":
            queue_url, arn = endpoint.get("queue_url"), endpoint.get("arn")
            if (queue_url is None) == (arn is None):
                return [Fault("exactly one of queue_url and arn is required", "/queue_url")]
            refusal = url_refusal(queue_url, ("http", "https")) if isinstance(queue_url, str) else None
            return [Fault(refusal, "/queue_url")] if refusal else []
    return []


def url_refusal(url: str, schemes: tuple[str, ...]) -> str | None:
    """Return why *url* is not an absolute URL of one of *schemes*, or None.

    >>> url_refusal("https://example.com:8443/hook?a=1", ("https",))
    >>> url_refusal("https://", ("https",))
    'must name a host'
    >>> url_refusal("http://example.com", ("https",))
    'must begin with https://'
    """
    if not url.isascii() or any(character <= " " or character == "\x7f" or character in '\\<>"' for character in url):
        return "must be a URL of printable ASCII characters"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in schemes or not url[len(parts.scheme) :].startswith("://"):
        return f"must begin with {' or '.join(scheme + '://' for scheme in schemes)}"
    if not host:
        return "must name a host"
    if port == 0:
        return "must not have port 0"
    if "@" in parts.netloc:
        return "must not carry a user name or password"
    return "must not have a fragment" if "#" in url else None


def _target(endpoint: HttpEndpoint | SqsEndpoint | LambdaEndpoint) -> str:
    match endpoint:
        case HttpEndpoint():
            return endpoint.url
        case SqsEndpoint():
            return endpoint.queue_url or endpoint.arn or ""
        case LambdaEndpoint():
            return endpoint.function


def _policy(retry: BackoffRetry | DecayRetry) -> RetryPolicy:
    match retry:
        case BackoffRetry():
            return RetryPolicy(Strategy.BACKOFF_RETRY, retry.max_retries, interval_s=retry.interval_seconds)
        case DecayRetry():
            longest = retry.max_interval_seconds
            return RetryPolicy(Strategy.EXPONENTIAL_DECAY_RETRY, retry.max_retries, interval_s_max=longest)
