"""Rows that make a request count once: an idempotency key with its first answer, and a signed request of CMQ."""

from __future__ import annotations

from dataclasses import dataclass, field

from tagcast.rows.codec import Codec, row_format
from tagcast.rows.keys import claim_key, nonce_key
from tagcast.rows.kind import Attributes, RowFormat
from tagcast.tables import ABSENT, Expectation, Put, Value


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to a producer: message id, acceptance, expiry, and the number of subscriptions that matched.

    *is_replay*: an earlier request with the same key got this answer. It does not affect equality.
    """

    message_id: str
    accepted_at: int
    expires_at: int
    matched: int
    is_replay: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Claim:
    """The digest of a request, and the answer to its repetitions while the message lives."""

    fingerprint: str
    accepted: Accepted


def _claim_row(claim: Claim) -> dict[str, Value]:
    accepted = claim.accepted
    return {
        "fingerprint": claim.fingerprint,
        "message_id": accepted.message_id,
        "accepted_at": accepted.accepted_at,
        "expires_at": accepted.expires_at,
        "matched": accepted.matched,
        "ttl": accepted.expires_at // 1000 + 1,
    }


def _claim_in(row: Attributes) -> Claim:
    accepted = Accepted(row["message_id"], row["accepted_at"], row["expires_at"], row["matched"])
    return Claim(row["fingerprint"], accepted)


CLAIM_ROWS = RowFormat(claim_key, _claim_row, _claim_in)


def claim_put(topic_id: str, key: str, claim: Claim, earlier: Claim | None) -> Put:
    """Return the write of a claim, unless *key* was claimed after *earlier* was read (None if there was no row)."""
    expect: Expectation = {"pk": ABSENT} if earlier is None else {"message_id": earlier.accepted.message_id}
    return CLAIM_ROWS.put(claim, topic_id, key, expect=expect)


@dataclass(frozen=True, slots=True)
class Nonce:
    """A signed request of CMQ that was accepted. *taken_by* is a unique id of the acceptance."""

    taken_by: str
    ttl: int


NONCE_ROWS = row_format(nonce_key, Codec(Nonce))


def nonce_put(nonce: Nonce, *named: str) -> Put:
    """Return the write that accepts the request *named*, unless it was accepted before."""
    return NONCE_ROWS.put(nonce, *named, expect={"pk": ABSENT})
