"""The ports behind which secrets are encrypted, and pushes are signed with the deployment's own key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Vault(Protocol):
    """Where secrets are encrypted with a key that the service itself never sees.

    *context* says what they belong to; with another one they do not open.
    """

    def seal(self, plain: bytes, context: Mapping[str, str]) -> bytes:
        """Return *plain* encrypted; UnavailableError while that cannot be done."""

    def open(self, sealed: bytes, context: Mapping[str, str]) -> bytes:
        """Return what was sealed in this context; UnavailableError while it cannot be read."""


class Signer(Protocol):
    """The deployment's own key (ed25519), for receivers that share no secret with it."""

    @property
    def is_ready(self) -> bool:
        """Say whether :meth:`prepare` has nothing to do."""

    def prepare(self) -> None:
        """Get the key, which may take a while; UnavailableError while that cannot be done."""

    def sign(self, content: bytes) -> bytes:
        """Return the signature of *content*; whoever asks has prepared before."""

    def public_key(self) -> bytes:
        """Return the 32 bytes by which anybody verifies; UnavailableError while they cannot be read."""
