"""Answers long polling when a message comes, instead of polling ten times a second."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

LOOK_S = 0.5
"""Changes by time alone (the end of a delay or visibility timeout) are checked this often."""
WAKERS = (
    "SendMessage",
    "SendMessageBatch",
    "DeleteMessage",
    "DeleteMessageBatch",
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
)
"""Actions that may unblock a receive: new messages, and the end of a group's block."""

Action = Callable[[dict[str, Any], str], Any]


class LongPoll:
    """The waiting receives of all queues; created on the engine's event loop."""

    def __init__(
        self, receive: Callable[[dict[str, Any], str], Awaitable[Mapping[str, Any]]], look_s: float = LOOK_S
    ) -> None:
        self._receive = receive
        self._look_s = look_s
        self._waiting: dict[str, set[asyncio.Event]] = {}

    async def receive(self, request: dict[str, Any], url: str) -> Mapping[str, Any]:
        """Handle ReceiveMessage like the engine, with another way of waiting."""
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
        """Wrap an action to wake the receives of its queue afterwards."""

        async def act(request: dict[str, Any], url: str) -> Any:
            answer = action(request, url)
            if asyncio.iscoroutine(answer):
                answer = await answer
            for woken in self._waiting.get(_name(request.get("QueueUrl", url)), ()):
                woken.set()
            return answer

        return act


def install(handlers: MutableMapping[str, Action]) -> None:
    """Make the engine's queue actions wait and wake."""
    long_poll = LongPoll(handlers["ReceiveMessage"])
    handlers["ReceiveMessage"] = long_poll.receive
    for name in WAKERS:
        handlers[name] = long_poll.waking(handlers[name])


def _name(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]
