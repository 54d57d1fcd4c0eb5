"""Signatures of pushes: Standard Webhooks, by a shared secret (`v1`) or by a key of the service (`v1a`)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import floor

from standardwebhooks import Webhook, WebhookVerificationError
from standardwebhooks.webhooks import hmac_data

PUBLIC_KEY_PREFIX = "whpk_"
SECRET_PREFIX = "whsec_"
SECRET_BYTES_MIN = 24
SECRET_BYTES_MAX = 64
_ANY = "v1,QUJD"


@dataclass(frozen=True, slots=True)
class Verifier:
    """Verifies signatures of one *scheme*, `v1` or `v1a`.

    *holds* checks the signatures of a body, with headers in lower case. `is_timely` checks the timestamp.
    """

    scheme: str
    holds: Callable[[Mapping[str, str], bytes], bool]


def verifier_of(secret: str) -> Verifier:
    """Return the verifier of a *secret*, or of a public key. Raises ValueError for any other text.

    Of a public key it raises ImportError without the extra `tagcast-client[ed25519]`.
    """
    if secret.startswith(PUBLIC_KEY_PREFIX):
        return Verifier("v1a", _by_public_key(secret))
    _check_secret(secret)

    def holds(headers: Mapping[str, str], body: bytes) -> bool:
        return _is_verified(_Signed(secret, body), headers)

    return Verifier("v1", holds)


def is_timely(headers: Mapping[str, str]) -> bool:
    """Say whether the timestamp is one, and within five minutes of this machine's clock."""
    return _is_verified(_Timely(), {**headers, "webhook-signature": _ANY})


def _check_secret(secret: str) -> None:
    """Raise ValueError for a text that the API takes for no secret."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(SECRET_PREFIX) or not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise ValueError(
            f"a secret is {SECRET_PREFIX} and the base64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes;"
            f" a public key begins with {PUBLIC_KEY_PREFIX}"
        )


class _Signed(Webhook):
    """Verifies the octets of *body*; the library verifies text, and a body may be anything."""

    def __init__(self, secret: str, body: bytes) -> None:
        super().__init__(secret)
        self._body = body

    def sign(self, msg_id: str, timestamp: datetime, data: str) -> str:
        signed = f"{msg_id}.{floor(timestamp.timestamp())}.".encode() + self._body
        return f"v1,{base64.b64encode(hmac_data(self._whsecret, signed)).decode()}"


class _Timely(Webhook):
    """The library's look at the timestamp alone: it is shown the signature that it expects."""

    def __init__(self) -> None:
        super().__init__(base64.b64encode(b"no secret").decode())

    def sign(self, msg_id: str, timestamp: datetime, data: str) -> str:
        return _ANY


def _is_verified(webhook: Webhook, headers: Mapping[str, str]) -> bool:
    try:
        webhook.verify("", dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError, binascii.Error):  # Malformed signatures are some of these.
        return False
    return True


def _by_public_key(text: str) -> Callable[[Mapping[str, str], bytes], bool]:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as absent:
        raise ImportError("public keys need the extra tagcast-client[ed25519]") from absent

    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(text.removeprefix(PUBLIC_KEY_PREFIX), validate=True))

    def holds(headers: Mapping[str, str], body: bytes) -> bool:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        return any(matches(each, signed) for each in headers.get("webhook-signature", "").split(" "))

    def matches(signature: str, signed: bytes) -> bool:
        version, _, encoded = signature.partition(",")
        try:
            key.verify(base64.b64decode(encoded, validate=True), signed)
        except (InvalidSignature, ValueError):  # What is no base64 is one of these.
            return False
        return version == "v1a"

    return holds
