"""Custom push headers of a subscription, as requests set them. They are write-only: no answer shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, cast

from pydantic import Field, StringConstraints
from pydantic.config import JsonDict, JsonValue
from tagcast.errors import Fault, FaultCode
from tagcast.filters.compiled import pointer_part
from tagcast.model import Protocol
from tagcast.pushing.envelope import header_bytes

from tagcast_aws.api import limits
from tagcast_aws.api.http.body import limit_field_count

_ALLOWED, _ALLOWED_PREFIX = "authorization", "x-"
REFUSED_BY_MEANING: dict[str, tuple[str, ...]] = {
    "set by the service": ("x-tagcast-", "x-cmq-"),
    "origin and route of the request": (
        *("x-forward", "x-real-", "x-client-", "x-cluster-client-", "x-true-client-", "x-originating-", "x-remote-"),
        *("x-proxy", "x-host", "x-url-", "x-scheme", "x-proto", "x-coming-from"),
    ),
    "another method, path or host": (
        *("x-http-", "x-method-", "x-request-method", "x-original-", "x-rewrite-", "x-middleware-", "x-accel-"),
    ),
    "the user or certificate that sends it": (
        *("x-auth-request-", "x-authenticated-", "x-auth-user", "x-user", "x-webauth-", "x-ssl-", "x-tls-"),
        *("x-consumer-", "x-credential-", "x-anonymous-", "x-apigateway-", "x-endpoint-api-", "x-jwt-", "x-pomerium-"),
    ),
    "any of these, under names of products": (
        *("x-amz", "x-goog-", "x-ms-", "x-azure-", "x-arr-", "x-waws-", "x-appengine-", "x-envoy-", "x-nf-"),
        *("x-vercel-",),
    ),
}
"""Refused prefixes of header names, grouped by meaning. The service or trusted proxies set such headers."""
REFUSED = tuple(name for names in REFUSED_BY_MEANING.values() for name in names)
_NOT_CHOSEN = "must not begin with a name of the service or of proxies (docs/http-api.md, Pushes)"


def _describe(schema: JsonDict) -> None:
    """Describe the names apart from the values: client generators do not read ``patternProperties``."""
    [(names, values)] = cast("dict[str, JsonValue]", schema.pop("patternProperties")).items()
    schema |= {"propertyNames": {"pattern": names}, "additionalProperties": values}
    schema |= {"writeOnly": True, "format": "push-headers"}


HeaderName = Annotated[str, StringConstraints(pattern=limits.PUSH_HEADER_NAME)]
HeaderValue = Annotated[
    str, StringConstraints(pattern=limits.PUSH_HEADER_VALUE, max_length=limits.PUSH_HEADER_LENGTH_MAX)
]
PushHeaders = Annotated[
    dict[HeaderName, HeaderValue],
    Field(min_length=1, max_length=limits.PUSH_HEADERS_MAX, json_schema_extra=_describe),
    limit_field_count(limits.PUSH_HEADERS_MAX, "headers"),
]
"""Header values by name, case-insensitively. :func:`header_faults` finds the refused names."""
ChangedHeaders = Annotated[
    dict[HeaderName, HeaderValue | None],
    Field(max_length=limits.PUSH_HEADERS_MAX, json_schema_extra=_describe),
    limit_field_count(limits.PUSH_HEADERS_MAX, "headers"),
]
"""Headers in a patch: null removes a header."""

_PUSHED_OTHERWISE = (Protocol.SQS.value, Protocol.LAMBDA.value)
OF_HEADERS: JsonDict = {
    "if": {"properties": {"endpoint": {"properties": {"protocol": {"enum": list(_PUSHED_OTHERWISE)}}}}},
    "then": {"properties": {"headers": {"type": "null"}}},
}
"""The schema rule that pushes to SQS and Lambda have no custom headers."""


def header_faults(subscription: Mapping[str, object]) -> list[Fault]:
    """Return the faults of custom headers that the schema does not find. Pointers are relative to the subscription.

    >>> [fault.pointer for fault in header_faults({"headers": {"Cookie": "a=b", "X-Tenant": "a", "x-tenant": "b"}})]
    ['/headers/Cookie', '/headers/x-tenant']
    """
    headers = subscription.get("headers")
    if not isinstance(headers, Mapping) or len(headers) > limits.PUSH_HEADERS_MAX:
        return []
    faults = [Fault(reason, f"/headers/{pointer_part(name)}", code) for name, reason, code in _list_refused(headers)]
    endpoint = subscription.get("endpoint")
    if isinstance(endpoint, Mapping) and endpoint.get("protocol") in _PUSHED_OTHERWISE:
        faults.append(Fault("is allowed only for pushes over HTTP", "/headers", FaultCode.CONFLICT))
    texts = {name: value for name, value in headers.items() if isinstance(value, str)}
    if header_bytes(texts) > limits.PUSH_HEADERS_BYTES_MAX:
        detail = f"must have at most {limits.PUSH_HEADERS_BYTES_MAX} bytes in all"
        faults.append(Fault(detail, "/headers", FaultCode.TOO_LARGE))
    return faults


def headers_of(body: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Convert headers to the core's form, in which their names are in lower case; None without headers."""
    return None if body is None else {name.lower(): value for name, value in body.items()}


def _list_refused(headers: Mapping[str, object]) -> Iterator[tuple[str, str, FaultCode]]:
    seen: set[str] = set()
    for name in headers:
        # CGI and WSGI pass headers on as variables, in which both characters become an underscore.
        plain = name.lower().replace("_", "-")
        if plain in seen:
            yield name, "is given twice, in different case", FaultCode.DUPLICATE
        elif plain.startswith(REFUSED):
            yield name, _NOT_CHOSEN, FaultCode.REFUSED
        elif plain != _ALLOWED and not plain.startswith(_ALLOWED_PREFIX):
            yield name, f"must be {_ALLOWED}, or begin with {_ALLOWED_PREFIX}", FaultCode.NOT_ALLOWED
        seen.add(plain)
