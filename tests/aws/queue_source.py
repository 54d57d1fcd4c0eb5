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
from tests.aws.sqs import calls_of
from tests.aws.stack import REGION
from tests.aws.timeline import Timeline

TRIES_AGAIN_MS = (200, 10_000)
BUSY_MS = 50
"""A source all of whose connections are busy looks again after that, at the earliest."""


class Connections:
    """Those of one source: a few while it is idle, more while all are busy, up to its own maximum or the account's."""

    def __init__(self, timeline: Timeline, most: int, a_minute: float) -> None:
        self.count = min(limits.QUEUE_POLLERS, most)
        self.each_ms = 60_000 / a_minute
        """After which another one may come."""
        self._timeline, self._most, self._grew_at = timeline, most, timeline.now

    def grow(self) -> bool:
        """Add one, unless there are enough or the last came a moment ago."""
        now = self._timeline.now
        if self.count >= self._most or now - self._grew_at < self.each_ms:
            return False
        self.count, self._grew_at = self.count + 1, now
        return True


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
        self._polls = self._waits = False
        self._quotas = box.quotas
        executions = box.quotas.place.executions
        most = min(executions, int(properties.get("ScalingConfig", {}).get("MaximumConcurrency", executions)))
        self._connections = Connections(timeline, most, box.unsaid.growth_a_minute)
        self.forgets: Callable[[int], bool] = lambda place: False
        """Says whether the removal of one served message is lost."""
        self.copies: Callable[[], bool] = lambda: False
        """Says whether a batch goes to two environments at once."""
        self.in_flight = 0
        """Batches that connections are busy with."""

    def told(self, after_ms: float = 0) -> None:
        """Hear that there may be messages to receive."""
        if not self._polls or after_ms:
            self._polls = self._polls or not after_ms
            wait_ms = after_ms + self._chance.uniform(*limits.QUEUE_SOURCE_MS)
            self._timeline.after(wait_ms, lambda: self._poll(clears=not after_ms))

    def _poll(self, clears: bool) -> None:
        if clears:
            self._polls = False
        if self.in_flight >= self._connections.count and not self._connections.grow():
            self._wait()
            return
        if not self._asks("ReceiveMessage"):
            self.told(TRIES_AGAIN_MS[0])
            return
        size = self._size if self._chance.random() < 0.6 else self._chance.randint(1, self._size)
        messages = self.queue.receive(size)
        if not messages:
            return
        self.told()
        self.told(self.queue.visibility_s * 1000)
        self._begin(messages)
        if self.copies():
            self._begin(messages)

    def _wait(self) -> None:
        """Ask again when there may be another connection; one that is free asks anyway."""
        if not self._waits:
            self._waits = True
            self._timeline.after(max(BUSY_MS, self._connections.each_ms), self._waited)

    def _waited(self) -> None:
        self._waits = False
        self.told()

    def _begin(self, messages: list[QueuedMessage]) -> None:
        self.in_flight += 1
        self._deliver(messages, 0)

    def _asks(self, action: str) -> bool:
        """Take one call of the queue's quotas, if they have one left."""
        return self._quotas.take(*calls_of(self.queue, action, (), self._quotas.place))

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
        self.in_flight -= 1
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
