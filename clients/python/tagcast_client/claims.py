"""What deduplicators of both kinds share: what a claim finds, and the fault when somebody else holds it."""

from __future__ import annotations

from enum import Enum

from tagcast_client.errors import TagcastError

LEASE_S = 30.0
"""The longest timeout of an attempt: who works for longer answers nobody."""
LIFE_S = 86_400.0
"""A message lives a day at most; after that nothing repeats it."""


class Claim(Enum):
    """What a claim found: nobody had the name, somebody works on it, or somebody was done with it."""

    NEW = "new"
    IN_PROGRESS = "in_progress"
    DONE = "done"


class InProgressError(TagcastError):
    """Another delivery of the message is being processed, or its process died within the last *retry_after_s* seconds.

    Answer 503 with that as Retry-After, or name the message in `item_failures`. Never 2xx: nobody is done with it yet.
    """

    def __init__(self, name: str, retry_after_s: float) -> None:
        super().__init__(f"{name} is being processed: again in {retry_after_s:g} s")
        self.name = name
        self.retry_after_s = retry_after_s
