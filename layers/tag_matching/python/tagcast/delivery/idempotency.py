"""What a producer is told, and the claims of its keys by which a repetition is told the same.

See docs/semantics.md, Idempotency.
"""

from __future__ import annotations

from dataclasses import dataclass

from tagcast.errors import ConflictError
from tagcast.rows.claim import Claim

IDEMPOTENCY_S = 300


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to a producer: who the message is, how long it lives, how many subscriptions it matched."""

    message_id: str
    accepted_at: int
    expires_at: int
    matched: int


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A producer's key for one request and the digest of what it asked for."""

    key: str
    fingerprint: str

    def at(self, place: int) -> Idempotency:
        """Return the claim of one place of the request: each message of a batch has its own.

        >>> Idempotency("k", "f").at(2)
        Idempotency(key='k#2', fingerprint='f')
        """
        return Idempotency(f"{self.key}#{place}", self.fingerprint)


def is_live(claim: Claim, now: int) -> bool:
    """Say whether a claim still answers repetitions."""
    return claim.expires_at > now


def repeated(known: Claim, claim: Idempotency) -> Accepted:
    """Return what the first request was told, or raise ConflictError if it asked for something else."""
    if known.fingerprint != claim.fingerprint:
        raise ConflictError("this Idempotency-Key was used for a different request within the last 5 minutes")
    return Accepted(known.message_id, known.accepted_at, known.message_expires_at, known.matched)


def claimed(claim: Idempotency, accepted: Accepted, now: int) -> Claim:
    """Return the claim that answers repetitions of a request which is answered with *accepted*."""
    return Claim(
        fingerprint=claim.fingerprint,
        message_id=accepted.message_id,
        accepted_at=accepted.accepted_at,
        message_expires_at=accepted.expires_at,
        matched=accepted.matched,
        expires_at=now + IDEMPOTENCY_S * 1000,
    )
