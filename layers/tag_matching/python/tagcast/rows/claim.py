"""Rows of what counts once: an idempotency key, with the answer to its first use, and a signed request of CMQ."""

from __future__ import annotations

from dataclasses import dataclass

from tagcast.rows.declaration import Declaration, Written
from tagcast.rows.keys import claim_key, nonce_key
from tagcast.tables import ABSENT, Expectation, Key, Put


@dataclass(frozen=True, slots=True)
class Claim:
    """The digest of what was asked for, what was answered, and until when a repetition gets the same answer."""

    fingerprint: str
    message_id: str
    accepted_at: int
    message_expires_at: int
    matched: int
    expires_at: int


CLAIM_ROWS = Declaration(
    Claim,
    claim_key,
    "what a request with this Idempotency-Key was told",
    "after 5 minutes",
    "publish",
    ttl=Written("{} // 1000 + 1", "expires_at"),
)


def claim_put(topic: str, key: str, claim: Claim, earlier: Claim | None) -> Put:
    """Return the write of a claim, on condition that nobody claimed *key* since *earlier* was read (None: no row)."""
    expect: Expectation = {"pk": ABSENT} if earlier is None else {"message_id": earlier.message_id}
    return Put(claim_key(topic, key), CLAIM_ROWS.row_of(claim), expect)


@dataclass(frozen=True, slots=True)
class Nonce:
    """That a signed request of CMQ was taken, and by which look at it."""

    taken_by: str
    ttl: int


NONCE_ROWS = Declaration(
    Nonce, nonce_key, "that a signed request of CMQ was taken", "10 minutes after its timestamp", "cmq"
)


def nonce_put(key: Key, taken_by: str, ttl: int) -> Put:
    """Return the write that takes a request, unless somebody took it before; the row goes after *ttl*."""
    return Put(key, NONCE_ROWS.row_of(Nonce(taken_by, ttl)), {"pk": ABSENT})
