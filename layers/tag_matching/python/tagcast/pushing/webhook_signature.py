"""The headers that every request has, and its signature: Standard Webhooks, with a secret that the subscriber gave."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Sequence

from tagcast.model import Subscription


class SecretError(ValueError):
    """A webhook secret is not ``whsec_`` and base64 of at least one byte."""


def signed_headers(
    subscription: Subscription, webhook_id: str, sent_at: int, version: str, parts: Sequence[bytes]
) -> dict[str, str]:
    """Return the headers that say who sends a request to *subscription*, and sign it. Raises SecretError."""
    timestamp = sent_at // 1000
    headers = {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(timestamp),
        "x-tagcast-topic": subscription.topic,
        "x-tagcast-subscription": subscription.name,
        "user-agent": f"tagcast/{version}",
    }
    if secrets := subscription.settings.signing_secrets(sent_at):
        headers["webhook-signature"] = signatures(secrets, webhook_id, timestamp, *parts)
    return headers


def signature(secret: str, message_id: str, timestamp: int, *body: bytes) -> str:
    """Return the ``webhook-signature`` of Standard Webhooks over the parts of a *body*. Raises SecretError.

    *timestamp* is in seconds.

    >>> signature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
    ...           b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    signed = hmac.new(_secret_key(secret), f"{message_id}.{timestamp}.".encode(), hashlib.sha256)
    for part in body:
        signed.update(part)
    return "v1," + base64.b64encode(signed.digest()).decode("ascii")


def signatures(secrets: Iterable[str], message_id: str, timestamp: int, *body: bytes) -> str:
    """Return a signature by each of *secrets*, with spaces between: who knows one of them verifies it.

    Raises SecretError.
    """
    return " ".join(signature(secret, message_id, timestamp, *body) for secret in secrets)


def _secret_key(secret: str) -> bytes:
    encoded = secret.removeprefix("whsec_")
    if encoded == secret:
        raise SecretError("no whsec_ prefix")
    try:
        key = base64.b64decode(encoded.rstrip("=") + "=" * (-len(encoded.rstrip("=")) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise SecretError("not base64") from None
    if not key:
        raise SecretError("empty")
    return key
