"""Verifies an HTTP endpoint, on an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tagcast.model import SubscriptionSettings
from tagcast.verification import VerificationResult

from tagcast_aws.endpoints.adapter import AdapterEnvironment
from tagcast_aws.endpoints.addresses import url_refusal


class HttpVerifier:
    """Implements the core's EndpointVerifier; *origin* is the service's name."""

    def __init__(
        self,
        surroundings: AdapterEnvironment,
        origin: str,
        make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        self._surroundings, self._origin, self._make_loop = surroundings, origin, make_loop

    def ask(self, settings: SubscriptionSettings, token: str, subscription_id: str | None) -> VerificationResult:
        """Ask by ``OPTIONS``. If the response does not allow pushes, ask by ``POST``. Redirects are refused."""
        # Imported on first use: aiohttp is most of a cold start.
        from tagcast_aws.endpoints.verification_requests import VerificationRequests

        endpoint, around = settings.endpoint, self._surroundings
        refusal = url_refusal(endpoint.target, endpoint.protocol, around.reach)
        if refusal is not None:
            return VerificationResult(refusal)
        with asyncio.Runner(loop_factory=self._make_loop) as runner:
            return runner.run(VerificationRequests(around, self._origin, settings, subscription_id).ask(token))
