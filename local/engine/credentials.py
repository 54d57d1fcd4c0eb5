"""Access keys of the engine's callers, new at every start."""

import base64
import secrets
from dataclasses import dataclass


@dataclass(frozen=True)
class Credentials:
    """An access key, which identifies the caller, and its secret key."""

    access_key: str
    secret: str

    @property
    def environment(self) -> dict[str, str]:
        """These credentials as environment variables of the AWS SDKs."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret}


def mint() -> Credentials:
    """Return new credentials, which cannot be guessed.

    >>> len(mint().access_key), mint() == mint()
    (20, False)
    """
    return Credentials(f"ASIA{base64.b32encode(secrets.token_bytes(10)).decode()}", secrets.token_hex(20))
