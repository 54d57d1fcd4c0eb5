"""Faults of a connection to an HTTP endpoint, in few words without any data of the request."""

from __future__ import annotations

import errno
import re
import ssl

import aiohttp

from tagcast_aws.endpoints.addresses import DOES_NOT_RESOLVE, NOT_PUBLIC
from tagcast_aws.endpoints.connector import MalformedBodyError
from tagcast_aws.endpoints.resolver import AddressRefusedError

_ALERT = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_ALERT_")
_OF_CERTIFICATES = frozenset(
    (
        "ACCESS_DENIED",
        "BAD_CERTIFICATE",
        "CERTIFICATE_EXPIRED",
        "CERTIFICATE_REQUIRED",
        "CERTIFICATE_REVOKED",
        "CERTIFICATE_UNKNOWN",
        "UNKNOWN_CA",
        "UNSUPPORTED_CERTIFICATE",
    )
)
"""TLS alerts of a receiver that refuses this client certificate, or a missing one."""


def failure(error: Exception) -> str:
    """Return the fault of a request in few words, without any part of its URL or content."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return "tls: certificate verify failed"
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return f"tls: {_words(_tls_reason(error) or 'handshake failed')}"
        case aiohttp.ClientConnectorDNSError():
            return NOT_PUBLIC if isinstance(error.os_error, AddressRefusedError) else DOES_NOT_RESOLVE
        case aiohttp.ServerDisconnectedError():
            return "connection closed before the answer"
        case aiohttp.ClientResponseError() | MalformedBodyError():
            return "malformed answer"
        case aiohttp.ClientPayloadError():
            return "answer cut off"
        case OSError() if reason := _tls_reason(error):
            return f"tls: {_words(reason)}"
        case OSError():
            return _connection_failure(error)
        case _:
            return f"request failed: {type(error).__name__}"


def is_unreached(error: Exception) -> bool:
    """Return whether a request was sent and got no response.

    False for an unsent request (:func:`is_unsent`). A refused client certificate counts as a response.
    """
    if is_unsent(error) or _ALERT.sub("", _tls_reason(error) or "") in _OF_CERTIFICATES:
        return False
    return isinstance(error, OSError | aiohttp.ServerDisconnectedError)


def is_unsent(error: Exception) -> bool:
    """Return whether the service itself refused to connect to the endpoint's address, so no request was sent."""
    found = error.os_error if isinstance(error, aiohttp.ClientConnectorDNSError) else error
    return isinstance(found, AddressRefusedError)


def _tls_reason(error: Exception) -> str | None:
    """Return OpenSSL's name of a TLS fault, or None. After a TLS 1.3 handshake the fault is the cause of *error*."""
    found = next((each for each in (error, error.__cause__) if isinstance(each, ssl.SSLError)), None)
    if isinstance(error, aiohttp.ClientConnectorSSLError) and isinstance(error.os_error, ssl.SSLError):
        found = error.os_error
    return None if found is None else getattr(found, "reason", None)


def _words(reason: str) -> str:
    """Return an OpenSSL name in readable form.

    >>> _words("TLSV13_ALERT_CERTIFICATE_REQUIRED"), _words("WRONG_VERSION_NUMBER")
    ('alert certificate required', 'wrong version number')
    """
    return _ALERT.sub("alert_", reason).replace("_", " ").lower()


def _connection_failure(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError) or error.errno == errno.ECONNREFUSED:
        return "connection refused"
    if isinstance(error, ConnectionError) or error.errno in (errno.ECONNRESET, errno.EPIPE):
        return "connection reset"
    if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
        return "host unreachable"
    if error.errno == errno.ETIMEDOUT:
        return "connection timed out"
    return "connection failed"
