"""The ports behind which secrets are encrypted, and pushes are signed with keys of the service."""

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
    """Keys of the service (ed25519), for receivers that share no secret with it: each subscription has its own.

    It has one more while the seed that they are derived from is exchanged; then both sign.
    """

    @property
    def is_ready(self) -> bool:
        """Say whether :meth:`prepare` has nothing to do."""

    def prepare(self) -> None:
        """Get the seeds, which may take a while; UnavailableError while that cannot be done."""

    def sign(self, subscription_id: str, content: bytes) -> tuple[bytes, ...]:
        """Return a signature of *content* by each key of a subscription. The caller has prepared before."""

    def public_keys(self, subscription_id: str) -> tuple[bytes, ...]:
        """Return the 32 bytes by which anybody verifies, for each key; UnavailableError while they cannot be read."""
