"""The deployment's own key: ed25519, made from a secret of Secrets Manager that CloudFormation had made.

PyNaCl signs: it is a third of the size of cryptography, and as quick to import. It is imported when a push or
somebody asks for the key: most processes never do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.errors import UnavailableError
from tagcast.ports import Clock

from tagcast_aws.store.secret import CachedSecret

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from nacl.signing import SigningKey

SIGNING_KEY_KEPT_S = 300.0
"""So long a process goes on with the key that it read."""


class Ed25519Signer:
    """The port ``Signer``; its seed is the SHA-256 of the secret's text."""

    def __init__(self, make_client: Callable[[], Any], name: str, clock: Clock, logger: Logger) -> None:
        self._secret = cache(lambda: CachedSecret(make_client(), name, clock, logger))
        self._clock = clock
        self._known: tuple[SigningKey, float] | None = None

    @property
    def is_ready(self) -> bool:
        """Say whether the key was read a short while ago."""
        return self._known is not None and self._clock.monotonic() < self._known[1] + SIGNING_KEY_KEPT_S

    def prepare(self) -> None:
        """Read the key unless it is known."""
        if not self.is_ready:
            self._known = _key(self._text()), self._clock.monotonic()

    def sign(self, content: bytes) -> bytes:
        """Return the signature of *content* by the key that was read last."""
        return self._key().sign(content).signature

    def public_key(self) -> bytes:
        """Return the public half, as 32 bytes."""
        self.prepare()
        return bytes(self._key().verify_key)

    def _key(self) -> SigningKey:
        if self._known is None:
            raise UnavailableError("the signing key is not read yet")
        return self._known[0]

    def _text(self) -> str:
        try:
            text = self._secret().read_now()
        except (ClientError, BotoCoreError):
            text = None
        if text is None:
            raise UnavailableError("the signing key cannot be read")
        return text


def _key(text: str) -> SigningKey:
    from nacl.signing import SigningKey

    return SigningKey(sha256(text.encode()).digest())
