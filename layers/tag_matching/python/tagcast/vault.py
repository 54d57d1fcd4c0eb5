"""The ports that encrypt secrets, and sign pushes with the service's keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Vault(Protocol):
    """Encrypts secrets with a key that the service never sees.

    *context* identifies the owner of the secrets. Secrets cannot be decrypted with another context.
    """

    def seal(self, plain: bytes, context: Mapping[str, str]) -> bytes:
        """Return *plain* encrypted. Raises UnavailableError."""

    def open(self, sealed: bytes, context: Mapping[str, str]) -> bytes:
        """Return the plaintext of *sealed* in this context. Raises UnavailableError."""


class Signer(Protocol):
    """The service's keys (ed25519), for receivers without a shared secret; each subscription has its own key.

    While the seed is rotated, each subscription has two keys, and both sign.
    """

    @property
    def is_ready(self) -> bool:
        """Whether :meth:`prepare` has nothing to do."""

    def prepare(self) -> None:
        """Load the seeds, which may take a while. Raises UnavailableError."""

    def sign(self, subscription_id: str, content: bytes) -> tuple[bytes, ...]:
        """Return a signature of *content* by each key of a subscription. Call :meth:`prepare` first."""

    def public_keys(self, subscription_id: str) -> tuple[bytes, ...]:
        """Return the subscription's public keys, 32 bytes each. Raises UnavailableError."""
