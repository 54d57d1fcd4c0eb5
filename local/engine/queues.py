"""Makes the engine's queues faster and closer to SQS.

A new message ends a long poll at once; the unchanged engine looks ten times a second. A send no longer scans the
deduplication ids of five minutes. ChangeMessageVisibility refuses messages that are visible.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from types import ModuleType
from typing import Any

LOOK_S = 0.5
"""The interval of checks for changes by time alone: the end of a delay or visibility timeout."""
WAKERS = (
    "SendMessage",
    "SendMessageBatch",
    "DeleteMessage",
    "DeleteMessageBatch",
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
)
"""Actions that may unblock a receive: new messages, and the end of a group's block."""

NOT_IN_FLIGHT = "MessageNotInflight", "The specified message isn't in flight."

Action = Callable[[dict[str, Any], str], Any]


class LongPoll:
    """Answers long polls, which wait until an action wakes their queue. Create one on the engine's event loop."""

    def __init__(
        self, receive: Callable[[dict[str, Any], str], Awaitable[Mapping[str, Any]]], look_s: float = LOOK_S
    ) -> None:
        self._receive = receive
        self._look_s = look_s
        self._waiting: dict[str, set[asyncio.Event]] = {}

    async def receive(self, request: dict[str, Any], url: str) -> Mapping[str, Any]:
        """Handle ReceiveMessage. A long poll looks for messages after each waking action and every *look_s* seconds."""
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
        """Wrap *action*, an action on a queue. After the action, long polls of that queue look for messages."""

        async def act(request: dict[str, Any], url: str) -> Any:
            answer = action(request, url)
            if asyncio.iscoroutine(answer):
                answer = await answer
            for woken in self._waiting.get(_name(request.get("QueueUrl", url)), ()):
                woken.set()
            return answer

        return act


def install(queues: ModuleType) -> None:
    """Install all changes in *queues*, the engine's module for SQS."""
    refuse_returned(queues)
    handlers: MutableMapping[str, Action] = queues._HANDLERS
    long_poll = LongPoll(handlers["ReceiveMessage"])
    handlers["ReceiveMessage"] = long_poll.receive
    for name in WAKERS:
        handlers[name] = long_poll.waking(handlers[name])
    queues._prune_dedup = forget_the_expired  # type: ignore[attr-defined]


def refuse_returned(queues: ModuleType) -> None:
    """Refuse to change the visibility timeout of a message that is not in flight, as SQS does; in batches, too."""
    change, change_all = (
        queues._HANDLERS[name] for name in ("ChangeMessageVisibility", "ChangeMessageVisibilityBatch")
    )

    def receipts_not_in_flight(request: Mapping[str, Any], queue_url: str) -> set[str]:
        queue = queues._get_q(request.get("QueueUrl", queue_url), "sqs:ChangeMessageVisibility")
        now = queues.time.time()
        return {each["receipt_handle"] for each in queue["messages"] if each["visible_at"] <= now} - {None}

    def change_in_flight(request: Mapping[str, Any], queue_url: str) -> Any:
        if request.get("ReceiptHandle") in receipts_not_in_flight(request, queue_url):
            raise queues._Err(*NOT_IN_FLIGHT)
        return change(request, queue_url)

    def change_all_in_flight(request: Mapping[str, Any], queue_url: str) -> Any:
        gone = receipts_not_in_flight(request, queue_url)
        refused = [each for each in request.get("Entries", ()) if each.get("ReceiptHandle") in gone]
        if not refused:
            return change_all(request, queue_url)
        left = [each for each in request["Entries"] if each not in refused]
        answer = change_all({**request, "Entries": left}, queue_url) if left else {"Successful": [], "Failed": []}
        code, message = NOT_IN_FLIGHT
        failed = [{"Id": each["Id"], "Code": code, "Message": message, "SenderFault": True} for each in refused]
        return {**answer, "Failed": [*answer["Failed"], *failed]}

    queues._HANDLERS["ChangeMessageVisibility"] = change_in_flight
    queues._HANDLERS["ChangeMessageVisibilityBatch"] = change_all_in_flight


def forget_the_expired(queue: dict[str, Any]) -> None:
    """Drop the expired deduplication ids of a queue. They come first, because all ids are valid equally long.

    >>> queue = {"dedup_cache": {"old": {"expire": 0.0}, "new": {"expire": time.time() + 300}}}
    >>> forget_the_expired(queue)
    >>> list(queue["dedup_cache"])
    ['new']
    """
    known: dict[str, Any] = queue["dedup_cache"]
    now = time.time()
    while known and known[oldest := next(iter(known))]["expire"] <= now:
        del known[oldest]


def _name(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]
