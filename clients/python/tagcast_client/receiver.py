"""Verifies and reads pushes over HTTP, in every content format."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tagcast_client.errors import TagcastError
from tagcast_client.received import Received, read, read_batch
from tagcast_client.verifying import is_timely, verifier_of

SIGNED_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


class VerificationFailure(StrEnum):
    """The reason why a request was not verified."""

    UNSIGNED = "unsigned"
    UNTIMELY = "untimely"
    OTHER_SCHEME = "other_scheme"
    WRONG_SIGNATURE = "wrong_signature"


class VerificationError(TagcastError):
    """The request is not verified. Respond 401 and process nothing. *failure* is the reason."""

    def __init__(self, failure: VerificationFailure, detail: str) -> None:
        super().__init__(detail)
        self.failure = failure


class Receiver:
    """Verifies and reads pushes of a subscription. Each of *secrets* is valid, so that you can rotate them.

    With the signature `v1a`, pass public keys of the subscription (`whpk_…`, from `Subscription.public_keys`) instead
    of secrets. Keys need the extra `tagcast-client[ed25519]`. Use one receiver per subscription, because the name of
    the subscription may be only in an unsigned header. A signature is valid five minutes before and after its
    timestamp. Use a `Deduplicator` to recognize repeated pushes.
    """

    def __init__(self, *secrets: str) -> None:
        if not secrets:
            raise ValueError("the subscription's secret is required; `read` reads without verification")
        self._verifiers = tuple(map(verifier_of, secrets))

    def verify(self, headers: Mapping[str, str], body: bytes) -> Received:
        """Verify a push and return its message.

        Raises VerificationError, and UnreadableError if the request is not a push of tagcast, or has several messages.
        """
        self._check(headers, body)
        return read(headers, body)

    def verify_batch(self, headers: Mapping[str, str], body: bytes) -> tuple[Received, ...]:
        """Verify a push, with or without a batch; return its messages. Raises VerificationError, UnreadableError."""
        self._check(headers, body)
        return read_batch(headers, body)

    def _check(self, headers: Mapping[str, str], body: bytes) -> None:
        if not isinstance(body, bytes | bytearray | memoryview):
            raise TypeError(f"the body must be the bytes of the request, not {type(body).__name__}")
        lowered = {name.lower(): value for name, value in headers.items()}
        if missing := [name for name in SIGNED_HEADERS if not lowered.get(name)]:
            raise VerificationError(
                VerificationFailure.UNSIGNED, f"the request is not signed: it lacks {', '.join(missing)}"
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
                "no signature matches: the secret differs, or the body was changed, parsed or re-encoded",
            )
