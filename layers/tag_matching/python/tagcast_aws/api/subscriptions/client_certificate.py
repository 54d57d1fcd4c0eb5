"""The client certificate of pushes over TLS: requests set it with its private key, which no answer shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field, StringConstraints
from pydantic.config import JsonDict
from tagcast.errors import Fault, FaultCode, InvalidRequestError
from tagcast.instant import rfc3339
from tagcast.model import Protocol, SubscriptionSettings
from tagcast.subscription_settings import ClientCertificate
from typing_extensions import TypedDict

from tagcast_aws.api import limits
from tagcast_aws.api.http.answer_types import Instant
from tagcast_aws.api.http.body import Body
from tagcast_aws.endpoints.client_certificate import ClientCertificateError, validate_certificate

_POINTER = "/client_certificate"
_SCHEMA: JsonDict = {"writeOnly": True, "format": "client-certificate"}


class ClientCertificateBody(Body):
    """A PEM certificate, followed by its chain, and its private key."""

    certificate: Annotated[
        str, StringConstraints(max_length=limits.CERTIFICATE_LENGTH_MAX), Field(json_schema_extra=_SCHEMA)
    ]
    private_key: Annotated[
        str, StringConstraints(max_length=limits.PRIVATE_KEY_LENGTH_MAX), Field(json_schema_extra=_SCHEMA)
    ]


class ClientCertificateAnswer(TypedDict):
    """The public parts of a certificate: its SHA-256 in hexadecimal, its subject, and its expiry."""

    fingerprint: str
    subject: str
    expires_at: Instant


_HTTPS = Protocol.HTTPS.value
OF_CERTIFICATES: JsonDict = {
    "if": {"not": {"properties": {"endpoint": {"properties": {"protocol": {"const": _HTTPS}}}}}},
    "then": {"properties": {"client_certificate": {"type": "null"}}},
}
"""The schema rule that only pushes over TLS may have a certificate."""


def certificate_faults(subscription: Mapping[str, object]) -> list[Fault]:
    """Return a fault if a subscription with a certificate has no https endpoint; else an empty list.

    >>> [fault.detail for fault in certificate_faults({"client_certificate": {}, "endpoint": {"protocol": "http"}})]
    ['is allowed only for pushes over https']
    """
    endpoint = subscription.get("endpoint")
    if subscription.get("client_certificate") is None or not isinstance(endpoint, Mapping):
        return []
    if endpoint.get("protocol") == _HTTPS:
        return []
    return [Fault("is allowed only for pushes over https", _POINTER, FaultCode.CONFLICT)]


def add_certificate(settings: SubscriptionSettings, body: ClientCertificateBody | None) -> SubscriptionSettings:
    """Return *settings* with the certificate and the private key of *body*; unchanged if *body* is None.

    Raises InvalidRequestError if a push could not use the certificate or the key now.
    """
    if body is None:
        return settings
    try:
        certificate, pem = validate_certificate(body.certificate, body.private_key)
    except ClientCertificateError as error:
        fault = Fault(error.reason, f"{_POINTER}/{error.field}", FaultCode.WRONG_FORMAT)
        raise InvalidRequestError((fault,)) from None
    return replace(settings, client_certificate=certificate, client_key=pem)


def show_certificate(value: ClientCertificate) -> ClientCertificateAnswer:
    """Return the public parts of a certificate.

    >>> show_certificate(ClientCertificate("ab12", "commonName=tagcast", 0))
    {'fingerprint': 'ab12', 'subject': 'commonName=tagcast', 'expires_at': '1970-01-01T00:00:00.000Z'}
    """
    return {"fingerprint": value.fingerprint, "subject": value.subject, "expires_at": rfc3339(value.expires_at)}
