"""Answers a waiting receive of a queue when something comes, instead of looking ten times a second."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

LOOK_S = 0.5
"""What comes by time alone (the end of a delay, or of an invisibility) is looked for this often."""
WAKERS = (
    "SendMessage",
    "SendMessageBatch",
    "DeleteMessage",
    "DeleteMessageBatch",
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
)
"""What may let a receive have something: new messages, and the end of what kept a group closed."""

Action = Callable[[dict[str, Any], str], Any]


class LongPoll:
    """The waiting of all queues; made on the event loop on which the engine serves them."""

    def __init__(
        self, receive: Callable[[dict[str, Any], str], Awaitable[Mapping[str, Any]]], look_s: float = LOOK_S
    ) -> None:
        self._receive = receive
        self._look_s = look_s
        self._waiting: dict[str, set[asyncio.Event]] = {}

    async def receive(self, request: dict[str, Any], url: str) -> Mapping[str, Any]:
        """ReceiveMessage, as the engine has it but for how it waits."""
        if not request.get("WaitTimeSeconds"):
            return await self._receive(request, url)
        ends_at = time.monotonic() + int(request["WaitTimeSeconds"])
        queue = _name(request.get("QueueUrl", url))
        while True:
            woken = asyncio.Event()
            self._waiting.setdefault(queue, set()).add(woken)
            try:
                found = await self._receive({**request, "WaitTimeSeconds": 0}, url)
                left_s = ends_at - time.monotonic()
                if found.get("Messages") or left_s <= 0:
                    return found
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), min(left_s, self._look_s))
            finally:
                self._waiting[queue].discard(woken)

    def waking(self, action: Action) -> Callable[[dict[str, Any], str], Awaitable[Any]]:
        """The action, which wakes those who wait for its queue when it is done."""

        async def act(request: dict[str, Any], url: str) -> Any:
            answer = action(request, url)
            if asyncio.iscoroutine(answer):
                answer = await answer
            for woken in self._waiting.get(_name(request.get("QueueUrl", url)), ()):
                woken.set()
            return answer

        return act


def install(handlers: MutableMapping[str, Action]) -> None:
    """Have the engine's actions of queues, by their names, wait and wake."""
    long_poll = LongPoll(handlers["ReceiveMessage"])
    handlers["ReceiveMessage"] = long_poll.receive
    for name in WAKERS:
        handlers[name] = long_poll.waking(handlers[name])


def _name(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]
