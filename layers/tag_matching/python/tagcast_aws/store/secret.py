"""A cached secret of Secrets Manager, read again when it is too old."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.errors import UnavailableError
from tagcast.ports import Clock

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

_ABSENT = ("ResourceNotFoundException", "AccessDeniedException")
"""The codes for a missing secret. If a role has access by name pattern, AWS denies access to a missing secret."""


class CachedSecret:
    """The text of one secret, never logged. A failed read raises UnavailableError, and the next call repeats it."""

    def __init__(self, client: Any, name: str, clock: Clock, logger: Logger) -> None:
        self._client = client
        self._name = name
        self._clock = clock
        self._logger = logger
        self._text: str | None = None
        self._read_at_s = -math.inf

    def text(self, age_s_max: float) -> str | None:
        """Return the secret, read at most *age_s_max* seconds ago; None if the secret did not exist."""
        if self._clock.monotonic() - self._read_at_s > age_s_max:
            return self.read_now()
        return self._text

    def read_now(self) -> str | None:
        """Return the current secret, or None if it does not exist."""
        began_s = self._clock.monotonic()
        self._text = self._read()
        self._read_at_s = began_s
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
