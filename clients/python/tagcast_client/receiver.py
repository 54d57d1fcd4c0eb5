"""Receiving what tagcast pushes over HTTP: verified, then read, whatever the subscription's content format."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tagcast_client.errors import TagcastError
from tagcast_client.received import Received, read, read_batch
from tagcast_client.verifying import is_timely, verifier_of

SIGNED_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


class VerificationFailure(StrEnum):
    """Why a request was not verified."""

    UNSIGNED = "unsigned"
    UNTIMELY = "untimely"
    OTHER_SCHEME = "other_scheme"
    WRONG_SIGNATURE = "wrong_signature"


class VerificationError(TagcastError):
    """The request may come from anybody: answer 401 and process nothing. *failure* says why."""

    def __init__(self, failure: VerificationFailure, detail: str) -> None:
        super().__init__(detail)
        self.failure = failure


class Receiver:
    """Verifies and reads pushes of a subscription; any of *secrets* may have signed, so that they can be changed.

    Public keys of the subscription (`whpk_…`, of `Subscription.public_keys`) stand for secrets where it has the
    signature `v1a`; that needs the extra `tagcast-client[ed25519]`. No other subscription's pushes verify by them: with
    keys of several in one receiver, headers alone would say which it was. A signature counts for five minutes before
    and after the instant that it names. What comes twice within that time is for a `Deduplicator` to tell.
    """

    def __init__(self, *secrets: str) -> None:
        if not secrets:
            raise ValueError("a receiver needs the subscription's secret; `read` reads without verifying")
        self._verifiers = tuple(map(verifier_of, secrets))

    def verify(self, headers: Mapping[str, str], body: bytes) -> Received:
        """Return the message of a push whose signature holds. Raises VerificationError, UnreadableError."""
        self._check(headers, body)
        return read(headers, body)

    def verify_batch(self, headers: Mapping[str, str], body: bytes) -> tuple[Received, ...]:
        """Return the messages of a batched push whose signature holds, in their order; of another push its only one.

        Raises VerificationError, UnreadableError.
        """
        self._check(headers, body)
        return read_batch(headers, body)

    def _check(self, headers: Mapping[str, str], body: bytes) -> None:
        lowered = {name.lower(): value for name, value in headers.items()}
        if missing := [name for name in SIGNED_HEADERS if not lowered.get(name)]:
            raise VerificationError(
                VerificationFailure.UNSIGNED, f"the request is not signed: it has no {', '.join(missing)}"
            )
        if not is_timely(lowered):
            raise VerificationError(
                VerificationFailure.UNTIMELY,
                f"the timestamp {lowered['webhook-timestamp'][:40]!r} is not within five minutes of this clock",
            )
        known = {each.scheme for each in self._verifiers}
        signed_by = {each.partition(",")[0] for each in lowered["webhook-signature"].split(" ")}
        if not known & signed_by:
            raise VerificationError(
                VerificationFailure.OTHER_SCHEME,
                f"the request is signed by {', '.join(sorted(signed_by))[:40]}; this receiver verifies"
                f" {', '.join(sorted(known))}: give it the subscription's secret for v1, its public keys for v1a",
            )
        if not any(verifier.holds(lowered, body) for verifier in self._verifiers):
            raise VerificationError(
                VerificationFailure.WRONG_SIGNATURE,
                "no signature matches: the secret is another one, or the body was changed, parsed or re-encoded",
            )
