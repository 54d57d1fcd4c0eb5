"""The port behind which secrets are encrypted."""

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
