"""Credentials of the engine's callers. Each start of the stack creates new ones."""

import base64
import secrets
from dataclasses import dataclass


@dataclass(frozen=True)
class Credentials:
    """An access key, which identifies a caller, and its secret access key."""

    access_key: str
    secret: str

    @property
    def environment(self) -> dict[str, str]:
        """The credentials as environment variables for AWS SDKs."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret}


def create_credentials() -> Credentials:
    """Create random credentials, which cannot be guessed.

    >>> len(create_credentials().access_key), create_credentials() == create_credentials()
    (20, False)
    """
    return Credentials(f"ASIA{base64.b32encode(secrets.token_bytes(10)).decode()}", secrets.token_hex(20))
