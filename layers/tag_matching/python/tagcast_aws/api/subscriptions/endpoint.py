"""The endpoint of a subscription, in requests and answers: one model per protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict
from tagcast.errors import Fault, FaultCode
from tagcast.model import Endpoint, Protocol
from tagcast.resource_names import FUNCTION, FUNCTION_LENGTH_MAX, NO_FUNCTION, QUEUE_ARN

from tagcast_aws.api import limits
from tagcast_aws.api.http.answer_types import SchemaOf
from tagcast_aws.api.http.body import Body

Url = Annotated[
    str,
    StringConstraints(max_length=limits.URL_LENGTH_MAX),
    Field(json_schema_extra={"format": "uri", "pattern": limits.URL}),
]
QueueArn = Annotated[str, StringConstraints(pattern=f"^{QUEUE_ARN}$"), Field(json_schema_extra={"format": "queue-arn"})]
_NOT_IN_A_URL = re.compile(r'[^!-~]|[\\<>"]')
_NULL: JsonDict = {"type": "null"}
_TEXT: JsonDict = {"type": "string"}


class HttpEndpoint(Body):
    """A URL that gets a POST for every message or batch."""

    protocol: Literal["http", "https"]
    url: Url


class SqsEndpoint(Body):
    """An SQS queue, named by exactly one of ``queue_url`` and ``arn``."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {"not": {"properties": {"queue_url": _NULL, "arn": _NULL}}},
                {"not": {"properties": {"queue_url": _TEXT, "arn": _TEXT}, "required": ["queue_url", "arn"]}},
            ]
        }
    )

    protocol: Literal["sqs"]
    queue_url: Url | None = None
    arn: QueueArn | None = None


class LambdaEndpoint(Body):
    """A Lambda function, by its name or its ARN."""

    protocol: Literal["lambda"]
    function: Annotated[
        str,
        StringConstraints(pattern=f"^{FUNCTION}$", max_length=FUNCTION_LENGTH_MAX),
        Field(json_schema_extra={"not": {"pattern": NO_FUNCTION}}),
    ]


class PullEndpoint(Body):
    """No endpoint: the subscription is a consumer group, whose members pull."""

    protocol: Literal["pull"]


AnyEndpoint = Annotated[HttpEndpoint | SqsEndpoint | LambdaEndpoint | PullEndpoint, Field(discriminator="protocol")]


StoredEndpoint = Annotated[dict[str, str], SchemaOf(AnyEndpoint)]
"""An endpoint in answers, unchanged from the request."""


def endpoint_of(body: AnyEndpoint) -> Endpoint:
    """Convert the endpoint in a request body to the core's :class:`Endpoint`."""
    return Endpoint(Protocol(body.protocol), _target(body))


def _target(endpoint: AnyEndpoint) -> str:
    match endpoint:
        case HttpEndpoint():
            return endpoint.url
        case SqsEndpoint():
            return endpoint.queue_url or endpoint.arn or ""
        case LambdaEndpoint():
            return endpoint.function
        case PullEndpoint():
            return ""


def show_endpoint(value: Endpoint) -> dict[str, str]:
    """Return the endpoint in the API's form, with its target in the field of its protocol.

    >>> show_endpoint(Endpoint(Protocol.SQS, "arn:aws:sqs:eu-west-1:123456789012:orders"))
    {'protocol': 'sqs', 'arn': 'arn:aws:sqs:eu-west-1:123456789012:orders'}
    >>> show_endpoint(Endpoint(Protocol.PULL, ""))
    {'protocol': 'pull'}
    """
    if value.protocol is Protocol.PULL:
        return {"protocol": "pull"}
    return {"protocol": value.protocol.value, target_field(value): value.target}


def target_field(value: Endpoint) -> str:
    """Return the name of the field with an endpoint's target; ``protocol`` if the endpoint has no target.

    >>> target_field(Endpoint(Protocol.LAMBDA, "bill"))
    'function'
    """
    match value.protocol:
        case Protocol.HTTP | Protocol.HTTPS:
            return "url"
        case Protocol.SQS:
            return "arn" if value.target.startswith("arn:") else "queue_url"
        case Protocol.LAMBDA:
            return "function"
        case Protocol.PULL:
            return "protocol"


def endpoint_faults(endpoint: Mapping[str, object]) -> list[Fault]:
    """Return the faults of an endpoint's URL, and of an SQS endpoint without exactly one of ``queue_url`` and ``arn``.

    Pointers are relative to the endpoint.
    """
    protocol, url = endpoint.get("protocol"), endpoint.get("url")
    match protocol:
        case "http" | "https" if isinstance(url, str):
            refusal = url_syntax_fault(url, (str(protocol),))
            return [Fault(refusal, "/url", FaultCode.WRONG_FORMAT)] if refusal else []
        case "sqs":
            queue_url, arn = endpoint.get("queue_url"), endpoint.get("arn")
            if (queue_url is None) == (arn is None):
                code = FaultCode.REQUIRED if queue_url is None else FaultCode.CONFLICT
                return [Fault("exactly one of queue_url and arn is required", "/queue_url", code)]
            refusal = url_syntax_fault(queue_url, ("http", "https")) if isinstance(queue_url, str) else None
            return [Fault(refusal, "/queue_url", FaultCode.WRONG_FORMAT)] if refusal else []
    return []


def url_syntax_fault(url: str, schemes: tuple[str, ...]) -> str | None:
    """Return why *url* is not an absolute URL of one of *schemes*; None if it is.

    Only the syntax is checked here. `tagcast_aws.endpoints.guard` checks the address.

    >>> url_syntax_fault("https://example.com:8443/hook?a=1", ("https",))
    >>> url_syntax_fault("https://", ("https",))
    'must name a host'
    >>> url_syntax_fault("http://example.com", ("https",)), url_syntax_fault("HTTPS://example.com", ("https",))
    ('must begin with https://', 'must begin with https://')
    """
    if _NOT_IN_A_URL.search(url):
        return "must be a URL of printable ASCII characters"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    beginnings = [f"{scheme}://" for scheme in schemes]
    if not url.startswith(tuple(beginnings)):
        return f"must begin with {' or '.join(beginnings)}"
    if not host:
        return "must name a host"
    if port == 0:
        return "must not have port 0"
    if "@" in parts.netloc:
        return "must not carry a user name or password"
    return "must not have a fragment" if "#" in url else None


def point_to_target(fault: Fault, endpoint: Endpoint) -> Fault:
    """Return *fault*. If it points to the whole endpoint, let it point to the target's field, such as ``url``."""
    if fault.pointer != "/endpoint":
        return fault
    return Fault(fault.detail, f"/endpoint/{target_field(endpoint)}", fault.code)
