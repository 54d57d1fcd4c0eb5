"""The outcome of an attempt, and past attempts as stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

NOT_OPENED = "the signing secret cannot be read"
"""The outcome of a delivery that the service did not attempt, because its secrets or seeds cannot be read."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one request. *detail* is a short text for people, without secrets (``http 500``).

    - *retry_after_s*: the receiver's Retry-After. *gone*: the receiver wants no more messages (410).
    - *unreached*: the host did not respond. *unsent*: the service itself refused or failed, so the outcome says nothing
      about the host. *refused*: the receiver responded, and may accept other messages.
    - *status*: the HTTP status. *answer*: the beginning of an error response. It is redacted and stored for display.
    - *failed*, if a batch was *delivered*: the messages that the receiver refused, by id, with the details.
    """

    delivered: bool
    detail: str
    retry_after_s: float | None = None
    gone: bool = False
    status: int | None = field(default=None, compare=False)
    answer: bytes = field(default=b"", compare=False, repr=False)
    failed: Mapping[str, str] = field(default_factory=dict)
    unreached: bool = field(default=False, compare=False, repr=False)
    unsent: bool = field(default=False, compare=False, repr=False)
    refused: bool = field(default=False, compare=False, repr=False)

    def of(self, message_id: str) -> Outcome:
        """Return the outcome of one message of a batch.

        >>> Outcome(True, "http 200", failed={"2": "named as failed"}).of("2")
        Outcome(delivered=False, detail='named as failed', retry_after_s=None, gone=False, status=None, failed={})
        """
        if message_id not in self.failed:
            return replace(self, failed={})
        return Outcome(False, self.failed[message_id], status=self.status, answer=self.answer, refused=True)


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """A stored attempt: its number, end, duration (milliseconds), outcome, HTTP *status*, and redacted *response*."""

    number: int
    ended_at: int
    took_ms: int
    outcome: str
    status: int | None = None
    response: str = ""
