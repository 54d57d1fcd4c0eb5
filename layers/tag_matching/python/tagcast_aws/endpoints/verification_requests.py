"""Verification requests to an HTTP endpoint: the handshake of CloudEvents' webhooks, then a token to repeat."""

from __future__ import annotations

import json
import ssl
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import aiohttp
from tagcast.model import SubscriptionSettings
from tagcast.pushing.webhook_signature import signatures
from tagcast.subscription_settings import Signature
from tagcast.verification import VerificationResult, confirmation, handshake
from yarl import URL

from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.client_contexts import presenting
from tagcast_aws.endpoints.connection_faults import failure
from tagcast_aws.endpoints.connector import BoundedConnector
from tagcast_aws.endpoints.http import certificate_refusal, plain_session, read_answer
from tagcast_aws.endpoints.resolver import CheckedResolver
from tagcast_aws.endpoints.time_limit import TimeLimit

QUESTION_S = 5
"""The timeout of each of the two requests, in seconds."""
TOKEN_BYTES_MAX = 1_024
_NOTHING = SimpleNamespace()


class VerificationRequests:
    """Verifies one endpoint, over its own connections, with the certificate, headers and signatures of pushes.

    *origin* is the service's name. *subscription_id* selects the service's key; without an id, no service key signs.
    """

    def __init__(
        self, surroundings: AdapterEnvironment, origin: str, settings: SubscriptionSettings, subscription_id: str | None
    ) -> None:
        self._surroundings, self._origin, self._settings = surroundings, origin, settings
        self._subscription_id = subscription_id

    async def ask(self, token: str) -> VerificationResult:
        """Send the handshake, then the token unless the handshake confirms. Return the last result."""
        around, url = self._surroundings, URL(self._settings.endpoint.target)
        refusal = certificate_refusal(self._settings, around.clock.now())
        if refusal is not None:
            return VerificationResult(refusal)
        try:
            tls = self._tls()
        except ssl.SSLError as error:
            return VerificationResult(failure(error))
        connector = BoundedConnector(
            force_close=True,
            resolver=CheckedResolver(around.reach, around.threads, around.lookup),
            ssl=tls,
            socket_factory=around.make_socket,
        )
        async with plain_session(connector) as session:
            consent = await self._result_of(self._offer(session, url))
            if consent.refusal is None:
                return consent
            return await self._result_of(self._confirm(session, url, token))

    async def _offer(self, session: aiohttp.ClientSession, url: URL) -> VerificationResult:
        headers = self._headers() | {"webhook-request-origin": self._origin}
        async with session.options(url, headers=headers, allow_redirects=False, trace_request_ctx=_NOTHING) as answer:
            origin, rate = answer.headers.get("WebHook-Allowed-Origin"), answer.headers.get("WebHook-Allowed-Rate")
            return handshake(answer.status, origin, rate, self._origin)

    async def _confirm(self, session: aiohttp.ClientSession, url: URL, token: str) -> VerificationResult:
        body, sent_at = json.dumps({"verification_token": token}).encode(), self._surroundings.clock.now()
        headers = self._headers() | {"content-type": "application/json"}
        if signed := self._signatures(token, sent_at, body):
            timestamp = str(sent_at // 1000)
            headers |= {"webhook-id": token, "webhook-timestamp": timestamp, "webhook-signature": signed}
        async with session.post(
            url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=_NOTHING
        ) as answer:
            return confirmation(answer.status, await read_answer(answer, TOKEN_BYTES_MAX), token)

    def _signatures(self, token: str, sent_at: int, body: bytes) -> str:
        sign, subscription_id = self._surroundings.sign, self._subscription_id
        if sign is None or subscription_id is None:
            return signatures(replace(self._settings, signature=Signature.V1), token, sent_at, (body,))
        return signatures(self._settings, token, sent_at, (body,), partial(sign, subscription_id))

    def _headers(self) -> dict[str, str]:
        return {**(self._settings.headers or {}), "user-agent": f"tagcast/{self._surroundings.version}"}

    def _tls(self) -> ssl.SSLContext:
        key, around = self._settings.client_key, self._surroundings
        return around.tls() if key is None else presenting(around, key)

    async def _result_of(self, question: Awaitable[VerificationResult]) -> VerificationResult:
        """Return the result of one request; no response is a refusal."""
        try:
            async with TimeLimit(QUESTION_S):
                return await question
        except TimeoutError:
            return VerificationResult(f"timeout after {QUESTION_S} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return VerificationResult(failure(error))
