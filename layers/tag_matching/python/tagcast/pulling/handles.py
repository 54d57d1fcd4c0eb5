"""Receipt handles: what a member has in its hand for each message that it pulled.

A handle says everything about its pull, so that nothing is stored for it, and nobody but the service can make one. See
docs/semantics.md, Pull groups.
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64Error
from dataclasses import astuple, dataclass
from hashlib import sha256

from tagcast.model import Subscription

FORMAT = 1
MAC_BYTES = 16
HIDDEN_S_MAX = 43_200
"""A message can stay invisible for at most 12 hours after its pull, because SQS gives no more."""


@dataclass(frozen=True, slots=True)
class Handle:
    """The *number*-th pull of a message, at *pulled_at*; it is nobody else's before *until*.

    *receipt* is what its group's queue knows it by.
    """

    message_id: str
    number: int
    pulled_at: int
    until: int
    receipt: str

    def text(self, group: Subscription) -> str:
        """Return the handle as a member of *group* gets it."""
        said = json.dumps([FORMAT, *astuple(self)], separators=(",", ":")).encode()
        return urlsafe_b64encode(_mac(group, said) + said).decode().rstrip("=")


def handle_of(text: str, group: Subscription) -> Handle | None:
    """Return the handle in *text*; None if it was not made for *group*.

    What was made for another group, or before the group was removed and made anew, has another secret.
    """
    try:
        signed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (NotBase64Error, ValueError):
        return None
    mac, said = signed[:MAC_BYTES], signed[MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(group, said)):
        return None
    form, *values = json.loads(said)
    return Handle(*values) if form == FORMAT else None


def _mac(group: Subscription, said: bytes) -> bytes:
    secret = group.settings.secret
    assert secret, "without a secret everybody could make handles"
    return hmac.digest(secret.encode(), group.subscription_id.encode() + said, sha256)[:MAC_BYTES]
