"""The event source mapping of the FIFO queue: batches to its function, answers in part, visibility by the queue."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from local.template.intrinsics import Resolver
from local.template.translated import SourceSpec
from tests.aws import limits
from tests.aws.box import Box
from tests.aws.faults import ApiError
from tests.aws.lambdas import Ended, Functions
from tests.aws.queues import Queue, QueuedMessage
from tests.aws.stack import REGION
from tests.aws.timeline import Timeline

TRIES_AGAIN_MS = (200, 10_000)


class QueueSource:
    """One mapping of one queue to one function."""

    def __init__(
        self, box: Box, timeline: Timeline, stack: Resolver, functions: Functions, spec: SourceSpec, queue: Queue
    ) -> None:
        properties = stack.value(dict(spec.properties))
        self._size = int(properties.get("BatchSize", 10))
        self._reports = "ReportBatchItemFailures" in properties.get("FunctionResponseTypes", ())
        assert "FilterCriteria" not in properties
        assert self._size <= limits.FIFO_SOURCE_BATCH_MAX
        self._function = functions.by_id[spec.function]
        self._functions, self._timeline, self.queue = functions, timeline, queue
        self._chance = Random(f"queue source {box.chance.random()}")
        self._polls = False
        self.forgets: Callable[[int], bool] = lambda place: False
        """Says whether the removal of one served message is lost."""
        self.copies: Callable[[], bool] = lambda: False
        """Says whether a batch goes to two environments at once."""
        self.in_flight = 0

    def told(self, after_ms: float = 0) -> None:
        """Hear that there may be messages to receive."""
        if not self._polls or after_ms:
            self._polls = self._polls or not after_ms
            wait_ms = after_ms + self._chance.uniform(*limits.QUEUE_SOURCE_MS)
            self._timeline.after(wait_ms, lambda: self._poll(clears=not after_ms))

    def _poll(self, clears: bool) -> None:
        if clears:
            self._polls = False
        size = self._size if self._chance.random() < 0.6 else self._chance.randint(1, self._size)
        messages = self.queue.receive(size)
        if not messages:
            return
        self.told()
        self.told(self.queue.visibility_s * 1000)
        self._deliver(messages, 0)
        if self.copies():
            self._deliver(messages, 0)

    def _deliver(self, messages: list[QueuedMessage], refusals: int) -> None:
        event = {"Records": [self.queue.event_of(message, REGION) for message in messages]}
        label = " ".join(message.body for message in messages)
        self._functions.start(self._function, event, lambda ended: self._ended(messages, refusals, ended), label=label)

    def _ended(self, messages: list[QueuedMessage], refusals: int, ended: Ended) -> None:
        if ended.error == "TooManyRequestsException":
            # lambda/latest/dg/services-sqs-scaling.html: it tries until the messages are visible again.
            wait_ms = min(TRIES_AGAIN_MS[1], TRIES_AGAIN_MS[0] * 2**refusals)
            if wait_ms < 1000 * self.queue.visibility_s / 4:
                self._timeline.after(wait_ms, lambda: self._deliver(messages, refusals + 1))
            return
        if ended.error is not None:
            return
        for place, message in enumerate(messages):
            if message.message_id not in self._failed(messages, ended.answer) and not self.forgets(place):
                with suppress(ApiError):  # It became visible again meanwhile, so the receipt is worth nothing.
                    self.queue.delete(message.receipt)
        self.told()

    def _failed(self, messages: list[QueuedMessage], answer: Any) -> set[str]:
        ids = {message.message_id for message in messages}
        if not self._reports:
            return set()
        named = [failure.get("itemIdentifier") for failure in (answer or {}).get("batchItemFailures") or []]
        return ids if any(name not in ids for name in named) else set(named)
