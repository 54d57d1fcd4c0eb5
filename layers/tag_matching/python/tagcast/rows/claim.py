"""Rows of idempotency claims: by which request, and with which answer, a producer's key was used first."""

from __future__ import annotations

from dataclasses import dataclass

from tagcast.rows.keys import claim_key
from tagcast.rows.values import number, text
from tagcast.tables import ABSENT, Expectation, Put, Row


@dataclass(frozen=True, slots=True)
class Claim:
    """The digest of what was asked for, what was answered, and until when a repetition gets the same answer."""

    fingerprint: str
    message_id: str
    accepted_at: int
    message_expires_at: int
    matched: int
    expires_at: int


def claim_row(claim: Claim) -> Row:
    """Return the row of a claim."""
    return {
        "fingerprint": claim.fingerprint,
        "message_id": claim.message_id,
        "accepted_at": claim.accepted_at,
        "message_expires_at": claim.message_expires_at,
        "matched": claim.matched,
        "expires_at": claim.expires_at,
        "ttl": claim.expires_at // 1000 + 1,
    }


def claim_of(row: Row) -> Claim:
    """Return the claim in a row."""
    return Claim(
        fingerprint=text(row, "fingerprint"),
        message_id=text(row, "message_id"),
        accepted_at=number(row, "accepted_at"),
        message_expires_at=number(row, "message_expires_at"),
        matched=number(row, "matched"),
        expires_at=number(row, "expires_at"),
    )


def claim_put(topic: str, key: str, claim: Claim, earlier: Claim | None) -> Put:
    """Return the write of a claim, on condition that nobody claimed *key* since *earlier* was read (None: no row)."""
    expect: Expectation = {"pk": ABSENT} if earlier is None else {"message_id": earlier.message_id}
    return Put(claim_key(topic, key), claim_row(claim), expect)
