"""What a producer is told, and the claims of its keys by which a repetition is told the same (HTTP API)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from tagcast.errors import ConflictError
from tagcast.ports import ABSENT, Expectation, Put, Row
from tagcast.rows.keys import claim_key

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


def is_live(claim: Row, now: int) -> bool:
    """Say whether a claim still answers repetitions."""
    return cast("int", claim["expires_at"]) > now


def repeated(row: Row, claim: Idempotency) -> Accepted:
    """Return what the first request was told, or raise ConflictError if it asked for something else."""
    if row["fingerprint"] != claim.fingerprint:
        raise ConflictError("this Idempotency-Key was used for a different request within the last 5 minutes")
    return Accepted(
        message_id=cast("str", row["message_id"]),
        accepted_at=cast("int", row["accepted_at"]),
        expires_at=cast("int", row["message_expires_at"]),
        matched=cast("int", row["matched"]),
    )


def claim_put(claim: Idempotency, accepted: Accepted, topic: str, now: int, earlier: Row | None) -> Put:
    """Return the write of a claim, on condition that nobody claimed since *earlier* was read (None: no row)."""
    expires_at = now + IDEMPOTENCY_S * 1000
    row: Row = {
        "fingerprint": claim.fingerprint,
        "message_id": accepted.message_id,
        "accepted_at": accepted.accepted_at,
        "message_expires_at": accepted.expires_at,
        "matched": accepted.matched,
        "expires_at": expires_at,
        "ttl": expires_at // 1000 + 1,
    }
    expect: Expectation = {"pk": ABSENT} if earlier is None else {"message_id": earlier["message_id"]}
    return Put(claim_key(topic, claim.key), row, expect)
