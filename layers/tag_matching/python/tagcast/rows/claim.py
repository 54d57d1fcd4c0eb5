"""Rows by which a repeated request has no second effect: claims of Idempotency-Keys, and signed requests of CMQ."""

from __future__ import annotations

from dataclasses import dataclass, field

from tagcast.rows.codec import Codec, row_format
from tagcast.rows.keys import claim_key, signed_key
from tagcast.tables import ABSENT, Expectation, Put


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to a publish: the message id, two times in milliseconds, and the number of matching subscriptions.

    *is_replay* is True if an earlier request with the same Idempotency-Key got this answer; comparisons ignore it.
    """

    message_id: str
    accepted_at: int
    expires_at: int
    matched: int
    is_replay: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of an Idempotency-Key: a digest of the request (*fingerprint*), and the answer to all repetitions."""

    fingerprint: str
    accepted: Accepted


CLAIM_ROWS = row_format(
    claim_key,
    Codec(Claim, {"accepted": Codec(Accepted, elsewhere=("is_replay",))}),
    lambda claim: {"ttl": claim.accepted.expires_at // 1000 + 1},
)


def claim_put(topic_id: str, key: str, claim: Claim, earlier: Claim | None) -> Put:
    """Return the write of *claim* for the Idempotency-Key *key*, in place of the claim *earlier*.

    The write fails if the row changed after *earlier* was read. If *earlier* is None, it fails if the row exists.
    """
    expect: Expectation = {"pk": ABSENT} if earlier is None else {"message_id": earlier.accepted.message_id}
    return CLAIM_ROWS.put(claim, topic_id, key, expect=expect)


@dataclass(frozen=True, slots=True)
class Signed:
    """A signed request of CMQ that was accepted. *taken_by* is a unique id of the call that accepted the request.

    The row expires at *ttl*, in seconds.
    """

    taken_by: str
    ttl: int


SIGNED_ROWS = row_format(signed_key, Codec(Signed))


def signed_put(signed: Signed, *named: str) -> Put:
    """Return the write that accepts a signed request. It fails if the request was accepted before.

    *named* are the arguments of :func:`tagcast.rows.keys.signed_key`: the id of the secret, and the signature.
    """
    return SIGNED_ROWS.put(signed, *named, expect={"pk": ABSENT})
