"""Shared by both deduplicators: the outcome of a claim, and the error while another process has the claim."""

from __future__ import annotations

from enum import Enum

from tagcast_client.errors import TagcastError

LEASE_S = 30.0
"""The default lease in seconds: the longest timeout of an attempt. A later response is too late."""
LIFE_S = 86_400.0
"""The default life in seconds: a message lives a day at most, and is not repeated after that."""


class Claim(Enum):
    """The outcome of a claim. NEW: the name was free and is now claimed. DONE: the message is processed.

    IN_PROGRESS: another token holds the claim.
    """

    NEW = "new"
    IN_PROGRESS = "in_progress"
    DONE = "done"


class InProgressError(TagcastError):
    """The message has a claim: it is being processed, or its process died less than *retry_after_s* seconds ago.

    *name* identifies the message. Answer 503 with *retry_after_s* as Retry-After, or name the message in
    `item_failures`. Never answer 2xx, because the message is not done yet.
    """

    def __init__(self, name: str, retry_after_s: float) -> None:
        super().__init__(f"{name} is being processed: retry in {retry_after_s:g} s")
        self.name = name
        self.retry_after_s = retry_after_s
