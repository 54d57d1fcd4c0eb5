"""A secret of Secrets Manager, cached as long as each caller allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.errors import UnavailableError
from tagcast.ports import Clock
from tagcast.registry.directory import NEVER_READ, ReadStart

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

_ABSENT = ("ResourceNotFoundException", "AccessDeniedException", "InvalidRequestException")
"""AWS's error codes for a missing secret, and for one that is scheduled for deletion.

If a role has access by name pattern, AWS denies access to a missing secret.
"""


class CachedSecret:
    """The text of one secret, never logged. A failed read raises UnavailableError; the next call reads again."""

    def __init__(self, client: Any, name: str, clock: Clock, logger: Logger) -> None:
        self._client = client
        self._name = name
        self._clock = clock
        self._logger = logger
        self._text: str | None = None
        self._read_start = NEVER_READ

    def text(self, age_s_max: float) -> str | None:
        """Return the secret, or None if it does not exist. A read older than *age_s_max* seconds is repeated."""
        return self._text if self._read_start.is_recent(self._clock, age_s_max) else self.read_now()

    def read_now(self) -> str | None:
        """Read the secret now; return it, or None if it does not exist."""
        start = ReadStart.of(self._clock)
        self._text = self._read()
        self._read_start = start
        return self._text

    def _read(self) -> str | None:
        try:
            return str(self._client.get_secret_value(SecretId=self._name)["SecretString"])
        except ClientError as error:
            code = error.response["Error"]["Code"]
            self._logger.warning("secret not read", extra={"error": code})
            if code not in _ABSENT:
                raise UnavailableError("the keys cannot be read") from None
            return None
        except BotoCoreError:
            raise UnavailableError("the keys cannot be read") from None
