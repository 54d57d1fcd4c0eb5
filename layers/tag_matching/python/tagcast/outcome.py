"""What came of attempts: of one as its receiver answered it, and of earlier ones as they are remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one request. *detail* is short, for people, and free of secrets (``http 500``).

    *retry_after_s* is what the receiver asked for; *gone* means that it wants nothing ever again (410), *unreached*
    that its host gave no answer, *refused* that it answered, and may take other messages. Remembered, but of no
    consequence, are HTTP's *status* and *answer*: the beginning of what was said by who did not take the message.
    Nobody sees that as it is. *failed* are those messages of a batch that was *delivered* which the receiver did not
    take all the same, by id, each with a detail of its own.
    """

    delivered: bool
    detail: str
    retry_after_s: float | None = None
    gone: bool = False
    status: int | None = field(default=None, compare=False)
    answer: bytes = field(default=b"", compare=False, repr=False)
    failed: Mapping[str, str] = field(default_factory=dict)
    unreached: bool = field(default=False, compare=False, repr=False)
    refused: bool = field(default=False, compare=False, repr=False)

    def of(self, message_id: str) -> Outcome:
        """Return what came of one message of a batch.

        >>> Outcome(True, "http 200", failed={"2": "named as failed"}).of("2")
        Outcome(delivered=False, detail='named as failed', retry_after_s=None, gone=False, status=None, failed={})
        """
        if message_id not in self.failed:
            return replace(self, failed={})
        return Outcome(False, self.failed[message_id], status=self.status, answer=self.answer, refused=True)


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """One attempt as it is remembered: when it ended, how long it took, what came of it.

    *status* is HTTP's; *response* is what the receiver said, as far as people may see it.
    """

    number: int
    ended_at: int
    took_ms: int
    outcome: str
    status: int | None = None
    response: str = ""
