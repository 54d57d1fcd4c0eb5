"""Receiving what tagcast pushes over HTTP: verified, then read, whatever the subscription's content format."""

from __future__ import annotations

from collections.abc import Mapping

from tagcast_client.errors import TagcastError
from tagcast_client.received import Received, read, read_batch
from tagcast_client.verifying import verifier_of


class VerificationError(TagcastError):
    """The request does not come from a holder of the secret, or is too old or too new: answer 401, process nothing."""


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
        if not any(holds(lowered, body) for holds in self._verifiers):
            raise VerificationError("no signature of this request holds, or its timestamp is not within five minutes")
