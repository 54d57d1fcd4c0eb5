"""Client certificates that the service presents to endpoints: validates them, and adds them to a TLS context."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import cast

from tagcast.subscription_settings import ClientCertificate

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s.*?-----END \1-----", re.DOTALL)
_KEYS = frozenset(("PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"))
_CERTIFICATE = "CERTIFICATE"
_PARAMETERS = "EC PARAMETERS"
"""OpenSSL may write this block before a key. The block is ignored, because the key names its curve, too."""
_ENCRYPTED = "ENCRYPTED"
CERTIFICATE, PRIVATE_KEY = "certificate", "private_key"
_MISFITS = frozenset(("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"))
_MISSING_LINKS = frozenset((2, 20, 21))
"""OpenSSL's codes for an issuer that is missing, or did not sign the certificate that names it."""
FLIGHTS_MAX = 10
SUBJECT_LENGTH_MAX = 256


class ClientCertificateError(ValueError):
    """An unusable certificate: the faulty *field*, and a *reason* that quotes nothing of the certificate."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}")
        self.field, self.reason = field, reason


def validate_certificate(chain: str, private_key: str) -> tuple[ClientCertificate, str]:
    """Return the public details of *chain*'s first certificate, and one PEM of *chain* and *private_key*.

    A handshake in memory tries both, so an accepted certificate works in a push. Raises ClientCertificateError for an
    unusable certificate or key.
    """
    certificates = _certificates(chain)
    pem = "\n".join((*certificates, _private_key(private_key), ""))
    client, server = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client.check_hostname, client.verify_mode, server.verify_mode = False, ssl.CERT_NONE, ssl.CERT_REQUIRED
    server.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        server.load_verify_locations(cadata=certificates[-1])
        for each in certificates:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=each)
    except ssl.SSLError:
        raise ClientCertificateError(CERTIFICATE, "has a part that is not a certificate") from None
    _load(client, pem)
    _load(server, pem)
    return _certificate_of(_rehearse(client, server)), pem


def present(context: ssl.SSLContext, pem: str) -> None:
    """Make connections of *context* present the certificate in *pem*. Raises ssl.SSLError.

    No file with the key remains.
    """
    with _readable(pem.encode()) as path:
        # With a password given, OpenSSL does not ask at a terminal.
        context.load_cert_chain(path, password="")


def _certificates(chain: str) -> list[str]:
    blocks = list(_BLOCK.finditer(chain))
    if not blocks or any(block[1] != _CERTIFICATE or not block[0].isascii() for block in blocks):
        raise ClientCertificateError(CERTIFICATE, "must be PEM certificates only, the client's own first")
    return [block[0] for block in blocks]


def _private_key(text: str) -> str:
    blocks = [block for block in _BLOCK.finditer(text) if block[1] != _PARAMETERS]
    if any(_ENCRYPTED in block[0] for block in blocks):
        raise ClientCertificateError(PRIVATE_KEY, "must not be encrypted")
    if len(blocks) != 1 or blocks[0][1] not in _KEYS:
        raise ClientCertificateError(PRIVATE_KEY, "must be one private key as PEM")
    return blocks[0][0]


def _load(context: ssl.SSLContext, pem: str) -> None:
    try:
        present(context, pem)
    except ssl.SSLError as error:
        # OpenSSL has no name for some faults.
        reason = str(error.reason)
        if reason in _MISFITS:
            raise ClientCertificateError(PRIVATE_KEY, "does not belong to the first certificate") from None
        if reason.startswith(("EE_", "CA_")):
            weakness = reason.lower().replace("_", " ")
            raise ClientCertificateError(CERTIFICATE, f"is too weak: {weakness}") from None
        raise ClientCertificateError(PRIVATE_KEY, "is not a key that TLS can use") from None


def _rehearse(client: ssl.SSLContext, server: ssl.SSLContext) -> ssl.SSLObject:
    """Return the server's end of a handshake in which the client presents its certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_end = client.wrap_bio(to_client, to_server)
    server_end = server.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(FLIGHTS_MAX):
            for end in (client_end, server_end):
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _MISSING_LINKS:
            raise ClientCertificateError(
                CERTIFICATE, "is not a chain: each certificate must be signed by the next"
            ) from None
        raise ClientCertificateError(CERTIFICATE, f"cannot be used: {error.verify_message}") from None
    except ssl.SSLError:
        raise ClientCertificateError(CERTIFICATE, "cannot be used in a handshake") from None
    return server_end


def _certificate_of(server: ssl.SSLObject) -> ClientCertificate:
    fields, encoded = server.getpeercert(), server.getpeercert(binary_form=True)
    assert fields is not None
    assert encoded is not None
    subject = cast("Iterable[Iterable[tuple[str, str]]]", fields["subject"])
    names = [f"{name}={value}" for part in subject for name, value in part]
    expires_at = round(ssl.cert_time_to_seconds(str(fields["notAfter"])) * 1000)
    return ClientCertificate(hashlib.sha256(encoded).hexdigest(), ", ".join(names)[:SUBJECT_LENGTH_MAX], expires_at)


@contextmanager
def _readable(content: bytes) -> Iterator[str]:
    """Provide *content* under a path for OpenSSL: in memory if possible, else in a private file."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("client-certificate"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
