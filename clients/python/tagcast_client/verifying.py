"""Signatures of pushes by Standard Webhooks: by a shared secret (`v1`), or by a key of the service (`v1a`)."""

from __future__ import annotations

import base64
import hmac
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

PUBLIC_KEY_PREFIX = "whpk_"
SECRET_PREFIX = "whsec_"
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64
TOLERANCE_S = 300.0
SIGNATURES_MAX = 16
"""The maximum signatures of a request: anyone may send many, and each check reads the whole body.

A push has at most one signature for each secret and key.
"""
_SECONDS = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Verifier:
    """Verifies signatures of one *scheme*, `v1` or `v1a`. *matches* says whether a signature fits the signed bytes."""

    scheme: str
    matches: Callable[[bytes, bytes], bool]

    def holds(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Return whether one of the signatures in *headers* is valid for *body*. More than 16 signatures are refused.

        The names in *headers* are in lower case. An id with a dot is refused, because dots separate the signed parts.
        Such an id could contain the timestamp, and the timestamp the beginning of the body.
        """
        signed = signed_octets(headers["webhook-id"], headers["webhook-timestamp"], body)
        texts = headers["webhook-signature"].split(" ")
        is_readable = "." not in headers["webhook-id"] and len(texts) <= SIGNATURES_MAX
        return is_readable and any(self._holds(each, signed) for each in texts)

    def _holds(self, text: str, signed: bytes) -> bool:
        scheme, _, encoded = text.partition(",")
        try:
            signature = base64.b64decode(encoded, validate=True)
        except ValueError:
            return False
        return scheme == self.scheme and self.matches(signature, signed)


def verifier_of(secret: str) -> Verifier:
    """Return the verifier for a *secret* or a public key. Any other text raises ValueError, any other type TypeError.

    Raises ImportError for a public key if the extra `tagcast-client[ed25519]` is not installed.
    """
    if not isinstance(secret, str):  # E.g. None, of an environment variable that is not set.
        raise TypeError(f"a secret is a text, not {type(secret).__name__}")
    if secret.startswith(PUBLIC_KEY_PREFIX):
        return Verifier("v1a", _by_public_key(secret))
    key = key_of(secret)
    return Verifier("v1", lambda signature, signed: hmac.compare_digest(signature, sign(key, signed)))


def is_timely(headers: Mapping[str, str]) -> bool:
    """Return whether the timestamp is in whole seconds, and within five minutes of this machine's clock.

    A dot separates timestamp and body in the signed bytes. So a timestamp with a fraction is refused, because the
    fraction could be the beginning of the body.
    """
    timestamp = headers["webhook-timestamp"]
    return _SECONDS.fullmatch(timestamp) is not None and abs(time.time() - int(timestamp)) <= TOLERANCE_S


def signed_octets(message_id: str, timestamp: str, body: bytes) -> bytes:
    """Return the bytes that a signature covers. Surrogates are allowed, because servers may decode bytes to them."""
    return f"{message_id}.{timestamp}.".encode(errors="surrogatepass") + body


def sign(key: bytes, signed: bytes) -> bytes:
    """Return the signature of scheme `v1` of the bytes *signed*."""
    return hmac.digest(key, signed, "sha256")


def key_of(secret: str) -> bytes:
    """Return the key, in bytes, that a secret contains. Raises ValueError for an invalid secret."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(SECRET_PREFIX) or not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise ValueError(
            f"a secret is {SECRET_PREFIX} and the base64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes;"
            f" a public key begins with {PUBLIC_KEY_PREFIX}"
        )
    return key


def _by_public_key(text: str) -> Callable[[bytes, bytes], bool]:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as absent:
        raise ImportError("public keys need the extra tagcast-client[ed25519]") from absent
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(text.removeprefix(PUBLIC_KEY_PREFIX), validate=True))

    def matches(signature: bytes, signed: bytes) -> bool:
        try:
            key.verify(signature, signed)
        except InvalidSignature:
            return False
        return True

    return matches
