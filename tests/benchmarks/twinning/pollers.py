"""The queue's event source as Lambda runs it: connections wait for messages, more of them while batches are full."""

from collections import Counter
from typing import Any

from tests.aws import limits
from tests.aws.lambdas import Ended
from tests.aws.queue_source import TRIES_AGAIN_MS, QueueSource
from tests.aws.queues import QueuedMessage


class Pollers(QueueSource):
    """A mapping that takes what there is, up to its batch size, and counts what it asks of the queue."""

    def __init__(self, *around: Any) -> None:
        super().__init__(*around)
        self.requests: Counter[str] = Counter()
        self.holding = False
        """Whether the mapping takes nothing for now."""
        self.served_ms: Counter[str] = Counter()
        """How long each group had a batch in flight, from its receipt to its deletion."""
        self._idle = self._connections.count

    def told(self, after_ms: float = 0) -> None:
        if after_ms:
            self._timeline.after(after_ms, self.told)
        elif self._idle:
            self._idle -= 1
            self._ask()

    def _ask(self) -> None:
        self._timeline.after(self._takes_ms("ReceiveMessage"), self._received)

    def _takes_ms(self, operation: str) -> float:
        return self._chance.uniform(*limits.latency("sqs", operation))

    def _received(self) -> None:
        if not self._asks("ReceiveMessage"):
            self._timeline.after(TRIES_AGAIN_MS[0], self._ask)
            return
        messages = [] if self.holding else self.queue.receive(self._size)
        if not messages:
            self._idle += 1
            return
        self.requests["ReceiveMessage"] += 1
        if len(messages) == self._size and self._connections.grow():
            self._idle += 1
            self.told()
        self._deliver(messages, 0)
        self._ask()

    def _ended(self, messages: list[QueuedMessage], refusals: int, ended: Ended) -> None:
        if ended.error is not None:
            super()._ended(messages, refusals, ended)
            return
        self.requests["DeleteMessageBatch"] += 1
        began = messages[0].visible_at - 1000 * self.queue.visibility_s
        failed = self._failed(messages, ended.answer)

        def deleted() -> None:
            if not self._asks("DeleteMessage"):
                self._timeline.after(TRIES_AGAIN_MS[0], deleted)
                return
            for group in {message.group or "" for message in messages}:
                self.served_ms[group] += self._timeline.now - began
            super(Pollers, self)._ended(messages, refusals, ended)
            for put_off in (each for each in messages if each.message_id in failed):
                self.told(max(0, put_off.visible_at - self._timeline.now))

        self._timeline.after(self._takes_ms("DeleteMessageBatch"), deleted)
