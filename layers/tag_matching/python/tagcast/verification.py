"""Endpoint verification (docs/semantics.md): which endpoints are allowed, and whether they confirm pushes."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import Protocol

from tagcast.model import Endpoint
from tagcast.subscription_settings import Protocol as Reached
from tagcast.subscription_settings import SubscriptionSettings

VERIFIABLE = frozenset((Reached.HTTP, Reached.HTTPS))
"""The protocols whose endpoints may be outside the account."""
PER_SECOND_MAX = 1_000.0
_RATE = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """The answer of an endpoint to a verification.

    *refusal* is the reason why the endpoint must not get pushes; None allows pushes. *per_second* is the rate limit
    that the endpoint requires; None means no limit.
    """

    refusal: str | None = None
    per_second: float | None = None


class EndpointGuard(Protocol):
    """Decides which endpoints may be reached."""

    def refusal(self, endpoint: Endpoint) -> str | None:
        """Return why *endpoint* must not be subscribed; None if it is allowed."""


class EndpointVerifier(Protocol):
    """Sends verification requests to endpoints."""

    def ask(self, settings: SubscriptionSettings, token: str, subscription_id: str | None) -> VerificationResult:
        """Ask an HTTP endpoint whether it allows pushes; this takes at most ten seconds.

        A failed request raises nothing: the result has a refusal. Requests are made like pushes with *settings*, whose
        secrets must be decrypted. An endpoint that does not confirm by the handshake gets *token*, and must repeat it.
        No other endpoint gets this token. Without *subscription_id* (a subscription not stored yet) no service key
        signs.
        """


@dataclass(frozen=True, slots=True)
class Verification:
    """A deployment's policy for verification.

    All endpoints must be verified unless *is_optional* is set. Endpoints of subscriptions that are created through
    CMQ's API must be verified only if *of_cmq* is set.
    """

    verifier: EndpointVerifier
    is_optional: bool = False
    of_cmq: bool = False


def handshake(status: int, allowed_origin: str | None, allowed_rate: str | None, origin: str) -> VerificationResult:
    """Return the result of CloudEvents' webhook handshake for *origin*.

    *allowed_origin* and *allowed_rate* (requests a minute) are headers of the response; None if missing.

    >>> handshake(200, "*", "120", "me.example"), handshake(204, "ME.example", "*", "me.example")
    (VerificationResult(refusal=None, per_second=2.0), VerificationResult(refusal=None, per_second=None))
    >>> handshake(200, "you.example", None, "me.example").refusal
    'origin not allowed'
    >>> handshake(200, "*", "fast", "me.example").refusal, handshake(405, "*", None, "me.example").refusal
    ('malformed WebHook-Allowed-Rate', 'http 405')
    """
    if not 200 <= status <= 299:
        return VerificationResult(f"http {status}")
    if allowed_origin is None or allowed_origin.strip().lower() not in ("*", origin.lower()):
        return VerificationResult("origin not allowed")
    rate = "*" if allowed_rate is None else allowed_rate.strip()
    if rate == "*":
        return VerificationResult()
    if not _RATE.fullmatch(rate):
        return VerificationResult("malformed WebHook-Allowed-Rate")
    return VerificationResult(per_second=min(int(rate) / 60, PER_SECOND_MAX))


def confirmation(status: int, answer: bytes, token: str) -> VerificationResult:
    """Return the result of the token request. A 2xx whose body is the token confirms; white space around it is ignored.

    >>> confirmation(200, b"abc\\n", "abc")
    VerificationResult(refusal=None, per_second=None)
    >>> confirmation(200, b'{"token": "abc"}', "abc")
    VerificationResult(refusal='token not repeated', per_second=None)
    """
    if not 200 <= status <= 299:
        return VerificationResult(f"http {status}")
    return (
        VerificationResult()
        if hmac.compare_digest(answer.strip(), token.encode())
        else VerificationResult("token not repeated")
    )
