"""The common headers of requests, and their signatures by Standard Webhooks, with a secret or the service's keys."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tagcast.model import Subscription
from tagcast.subscription_settings import Signature, SubscriptionSettings

Sign = Callable[[str, bytes], Sequence[bytes]]
"""Given a subscription's id and a content, returns a signature (ed25519) by each of the subscription's service keys."""


class SecretError(ValueError):
    """A webhook secret is not ``whsec_`` plus base64 of at least one byte."""


def signed_headers(
    subscription: Subscription,
    webhook_id: str,
    sent_at: int,
    version: str,
    parts: Sequence[bytes],
    sign: Sign | None = None,
) -> dict[str, str]:
    """Return the headers that identify and sign a request, and the subscription's own headers. Raises SecretError.

    *webhook_id* identifies the message or batch. *sent_at* is the time of the attempt in milliseconds, *version* the
    version of this software, and *parts* the body. *sign* signs with the service's keys.
    """
    timestamp = sent_at // 1000
    headers = {
        **(subscription.settings.headers or {}),
        "webhook-id": webhook_id,
        "webhook-timestamp": str(timestamp),
        "x-tagcast-topic": subscription.topic,
        "x-tagcast-subscription": subscription.name,
        "user-agent": f"tagcast/{version}",
    }
    its_sign = None if sign is None else partial(sign, subscription.subscription_id)
    if signed := signatures(subscription.settings, webhook_id, sent_at, parts, its_sign):
        headers["webhook-signature"] = signed
    return headers


def signature(secret: str, message_id: str, timestamp: int, *body: bytes) -> str:
    """Return the ``webhook-signature`` of Standard Webhooks over the parts of a *body*. Raises SecretError.

    *timestamp* is in seconds.

    >>> signature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
    ...           b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    signed = b"".join((f"{message_id}.{timestamp}.".encode(), *body))
    return "v1," + base64.b64encode(hmac.digest(_secret_key(secret), signed, "sha256")).decode("ascii")


def signatures(
    settings: SubscriptionSettings,
    message_id: str,
    sent_at: int,
    body: Iterable[bytes],
    sign: Callable[[bytes], Sequence[bytes]] | None = None,
) -> str:
    """Return all signatures that *settings* require, separated by spaces. Without signatures, return an empty text.

    Each secret that is valid at *sent_at* (milliseconds) adds one signature. With ``v1a``, *sign* adds one for each of
    the subscription's service keys. A receiver can verify the push with any signature. Raises SecretError if a secret
    is invalid, or if *sign* is None with ``v1a``.
    """
    parts, timestamp = tuple(body), sent_at // 1000
    made = [signature(each, message_id, timestamp, *parts) for each in settings.signing_secrets(sent_at)]
    if settings.signature is Signature.V1A:
        if sign is None:
            raise SecretError("no key to sign with")
        content = b"".join((f"{message_id}.{timestamp}.".encode(), *parts))
        made += ["v1a," + base64.b64encode(each).decode("ascii") for each in sign(content)]
    return " ".join(made)


def _secret_key(secret: str) -> bytes:
    encoded = secret.removeprefix("whsec_")
    if encoded == secret:
        raise SecretError("no whsec_ prefix")
    try:
        key = base64.b64decode(encoded.rstrip("=") + "=" * (-len(encoded.rstrip("=")) % 4), validate=True)
    except ValueError:
        raise SecretError("not base64") from None
    if not key:
        raise SecretError("empty")
    return key
