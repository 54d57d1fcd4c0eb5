"""Rows that make a request count once: an idempotency key with its first answer, and a signed request of CMQ."""

from __future__ import annotations

from dataclasses import dataclass, field

from tagcast.rows.codec import Codec, read_part, row_format
from tagcast.rows.keys import claim_key, signed_key
from tagcast.tables import ABSENT, Expectation, Put


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


_ANSWERS = Codec(Accepted, elsewhere=("is_replay",))
CLAIM_ROWS = row_format(
    claim_key,
    Codec(Claim, {"accepted": read_part(_ANSWERS.value)}),
    lambda claim: {**_ANSWERS.attributes(claim.accepted), "ttl": claim.accepted.expires_at // 1000 + 1},
)


def claim_put(topic_id: str, key: str, claim: Claim, earlier: Claim | None) -> Put:
    """Return the write of a claim, unless *key* was claimed after *earlier* was read (None if there was no row)."""
    expect: Expectation = {"pk": ABSENT} if earlier is None else {"message_id": earlier.accepted.message_id}
    return CLAIM_ROWS.put(claim, topic_id, key, expect=expect)


@dataclass(frozen=True, slots=True)
class Signed:
    """A signed request of CMQ that was accepted. *taken_by* is a unique id of the acceptance."""

    taken_by: str
    ttl: int


SIGNED_ROWS = row_format(signed_key, Codec(Signed))


def signed_put(signed: Signed, *named: str) -> Put:
    """Return the write that accepts a signed request, unless it was accepted before. Its key has the names *named*."""
    return SIGNED_ROWS.put(signed, *named, expect={"pk": ABSENT})
