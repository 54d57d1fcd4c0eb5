"""The adapter of each endpoint protocol, and the port ``Pusher`` over all of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from tagcast.model import Outcome, Protocol, Push, PushBatch, Subscription
from tagcast.pushing.webhook_signature import SecretError

from tagcast_aws.endpoints.adapter import AdapterEnvironment, EndpointAdapter

T = TypeVar("T")
AdapterFactory = Callable[[AdapterEnvironment], EndpointAdapter]


def _http(surroundings: AdapterEnvironment) -> EndpointAdapter:
    from tagcast_aws.endpoints.http import HttpPusher

    return HttpPusher(surroundings)


def _sqs(surroundings: AdapterEnvironment) -> EndpointAdapter:
    from tagcast_aws.endpoints.sqs import QueueEndpoint

    return QueueEndpoint(surroundings)


def _function(surroundings: AdapterEnvironment) -> EndpointAdapter:
    from tagcast_aws.endpoints.function import FunctionEndpoint

    return FunctionEndpoint(surroundings)


# Imported on the first push: aiohttp and boto3 are most of a cold start.
ADAPTERS: Mapping[Protocol, AdapterFactory] = {
    Protocol.HTTP: _http,
    Protocol.HTTPS: _http,
    Protocol.SQS: _sqs,
    Protocol.LAMBDA: _function,
}


class EndpointPusher:
    """Implements the core's Pusher over all protocols, and owns the event loop of their connections.

    Create one per process: :meth:`run` always uses the same loop, so connections outlive an invocation. *make_loop*
    replaces the loop in simulations.
    """

    def __init__(
        self, surroundings: AdapterEnvironment, make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    ) -> None:
        self._surroundings = surroundings
        self._make_loop = make_loop
        self._adapters: dict[AdapterFactory, EndpointAdapter] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: asyncio.Runner | None = None
        self._running = threading.Lock()

    async def push(self, push: Push) -> Outcome:
        """Make one attempt within the subscription's timeout. A failure is an outcome, never an exception."""
        return await self._attempt(push.subscription, lambda adapter: adapter.deliver(push))

    async def push_batch(self, batch: PushBatch) -> Outcome:
        """Make several attempts in one request. A failure is an outcome, never an exception."""
        return await self._attempt(batch.subscription, lambda adapter: adapter.deliver_batch(batch))

    async def _attempt(
        self, subscription: Subscription, deliver: Callable[[EndpointAdapter], Awaitable[Outcome]]
    ) -> Outcome:
        try:
            return await deliver(self._adapter(subscription.settings.endpoint.protocol))
        except SecretError:
            return Outcome(False, "malformed webhook secret", unsent=True)
        except Exception as error:  # noqa: BLE001 An unexpected fault of one subscriber must not end the others' batch.
            return Outcome(False, f"fault: {type(error).__name__}", unsent=True)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run *coroutine* on the loop of this pusher; calls from several threads take turns.

        Unfinished tasks of *coroutine* are cancelled, so none continues in the next invocation.
        """
        with self._running:
            if self._runner is None:
                self._runner = asyncio.Runner(loop_factory=self._make_loop)
            try:
                return self._runner.run(coroutine)
            finally:
                self._runner.run(_end_what_is_left())

    async def aclose(self) -> None:
        """Close all connections of the running loop; a later push opens new ones."""
        adapters, self._adapters = self._adapters, {}
        for adapter in adapters.values():
            await adapter.close()

    def close(self) -> None:
        """Close all connections and the loop; the pusher may be used again."""
        if self._runner is not None:
            self.run(self.aclose())
            self._runner.close()
            self._runner = None

    def _adapter(self, protocol: Protocol) -> EndpointAdapter:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Connections belong to a loop; without it they can neither be used nor closed properly.
            self._adapters, self._loop = {}, loop
        factory = ADAPTERS[protocol]
        if factory not in self._adapters:
            self._adapters[factory] = factory(self._surroundings)
        return self._adapters[factory]


async def _end_what_is_left() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
