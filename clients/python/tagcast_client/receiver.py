"""Receiving what tagcast pushes over HTTP: verified, then read, whatever the subscription's content format."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from math import floor

from standardwebhooks import Webhook, WebhookVerificationError
from standardwebhooks.webhooks import hmac_data

from tagcast_client.errors import TagcastError
from tagcast_client.received import Received, read, read_batch


class VerificationError(TagcastError):
    """The request does not come from a holder of the secret, or is too old or too new: answer 401, process nothing."""


class Receiver:
    """Verifies and reads pushes of a subscription; any of *secrets* may have signed, so that they can be changed.

    A signature counts for five minutes before and after the instant that it names. What comes twice within that time
    is for a `Deduplicator` to tell.
    """

    def __init__(self, *secrets: str) -> None:
        if not secrets:
            raise ValueError("a receiver needs the subscription's secret; `read` reads without verifying")
        for secret in secrets:
            Webhook(secret)  # It raises for what is no secret.
        self._secrets = secrets

    def verify(self, headers: Mapping[str, str], body: bytes) -> Received:
        """Return the message of a push whose signature holds. Raises VerificationError, UnreadableError."""
        self._check(headers, body)
        return read(headers, body)

    def verify_batch(self, headers: Mapping[str, str], body: bytes) -> tuple[Received, ...]:
        """Return the messages of a batched push whose signature holds, in their order; of another push its only one.

        Raises VerificationError, UnreadableError.
        """
        self._check(headers, body)
        return read_batch(headers, body)

    def _check(self, headers: Mapping[str, str], body: bytes) -> None:
        lowered = {name.lower(): value for name, value in headers.items()}
        if any(_is_signed(secret, lowered, body) for secret in self._secrets):
            return
        raise VerificationError("no signature of this request holds, or its timestamp is not within five minutes")


class _Signed(Webhook):
    """Verifies the octets of *body*; the library verifies text, and a body may be anything."""

    def __init__(self, secret: str, body: bytes) -> None:
        super().__init__(secret)
        self._body = body

    def sign(self, msg_id: str, timestamp: datetime, data: str) -> str:
        signed = f"{msg_id}.{floor(timestamp.timestamp())}.".encode() + self._body
        return f"v1,{base64.b64encode(hmac_data(self._whsecret, signed)).decode()}"


def _is_signed(secret: str, headers: dict[str, str], body: bytes) -> bool:
    try:
        _Signed(secret, body).verify("", headers, json_parse=False)
    except (WebhookVerificationError, ValueError, binascii.Error):  # Malformed signatures are some of these.
        return False
    return True
