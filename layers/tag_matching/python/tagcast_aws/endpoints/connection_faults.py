"""What went wrong on the way to an HTTP endpoint, in few words that tell nobody what was sent."""

from __future__ import annotations

import errno
import ssl

import aiohttp

from tagcast_aws.endpoints.addresses import DOES_NOT_RESOLVE, NOT_PUBLIC
from tagcast_aws.endpoints.resolver import AddressRefusedError


def failure(error: Exception) -> str:
    """Return what went wrong with a request in few words, without any part of the URL or of what was sent."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return "tls: certificate verify failed"
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorSSLError) else error
            return f"tls: {(getattr(cause, 'reason', None) or 'handshake failed').replace('_', ' ').lower()}"
        case aiohttp.ClientConnectorDNSError():
            return NOT_PUBLIC if isinstance(error.os_error, AddressRefusedError) else DOES_NOT_RESOLVE
        case aiohttp.ServerDisconnectedError():
            return "connection closed before the answer"
        case aiohttp.ClientPayloadError():
            return "answer cut off"
        case aiohttp.ClientResponseError():
            return "malformed answer"
        case OSError():
            return _connection_failure(error)
        case _:
            return f"request failed: {type(error).__name__}"


def is_unreached(error: Exception) -> bool:
    """Say whether a request failed before any answer, and not because its address is refused here."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return not isinstance(error.os_error, AddressRefusedError)
    return isinstance(error, OSError | aiohttp.ServerDisconnectedError) and not isinstance(error, AddressRefusedError)


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
