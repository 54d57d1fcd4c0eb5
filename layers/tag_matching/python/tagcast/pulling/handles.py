"""Receipt handles: a member's token for each message that it pulled.

A handle contains all data about its pull, so the service does not store handles. Only the service can create a handle.
See docs/semantics.md, Consumer groups.
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import astuple, dataclass
from hashlib import sha256

from tagcast.model import Subscription

FORMAT = 1
MAC_BYTES = 16
HIDDEN_S_MAX = 43_200
"""The visibility timeout ends at most 12 hours after the pull, the limit of SQS."""


@dataclass(frozen=True, slots=True)
class Handle:
    """The *number*-th pull of a message, at *pulled_at*. The message is invisible until *until*.

    *receipt* is the SQS receipt handle of the queue's entry.
    """

    message_id: str
    number: int
    pulled_at: int
    until: int
    receipt: str

    def text(self, group: Subscription) -> str:
        """Return the handle as text for a member of *group*."""
        payload = json.dumps([FORMAT, *astuple(self)], separators=(",", ":")).encode()
        return urlsafe_b64encode(_mac(group, payload) + payload).decode().rstrip("=")


def handle_of(text: str, group: Subscription) -> Handle | None:
    """Return the handle in *text*, or None if *text* is no valid handle of *group*.

    A recreated group has another secret, so handles of the deleted group are not valid.
    """
    try:
        signed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    mac, payload = signed[:MAC_BYTES], signed[MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(group, payload)):
        return None
    form, *values = json.loads(payload)
    return Handle(*values) if form == FORMAT else None


def _mac(group: Subscription, payload: bytes) -> bytes:
    secret = group.settings.secret
    assert secret, "without a secret everybody could make handles"
    return hmac.digest(secret.encode(), group.subscription_id.encode() + payload, sha256)[:MAC_BYTES]
