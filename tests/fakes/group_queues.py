"""The port ``GroupQueues`` in memory, as SQS has it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tagcast.errors import UnavailableError
from tagcast.ports import GroupQueue, QueueCounts, QueueEntry, ReceivedEntry


@dataclass
class Held:
    entry: QueueEntry
    entry_id: str
    visible_at: int = 0
    receipt: str = ""
    times: int = 0


@dataclass
class FakeGroupQueues:
    """Entries by group, in the order in which they came; *broken* answers nothing.

    No call waits: a pull of an empty queue lets the time pass by *sleep*.
    """

    now: Callable[[], int]
    sleep: Callable[[float], None] = lambda seconds: None
    queues: dict[GroupQueue, list[Held]] = field(default_factory=dict)
    broken: bool = False
    sent: int = 0
    receipts: int = 0

    def make(self, queue: GroupQueue) -> None:
        self._answering()
        self.queues.setdefault(queue, [])

    def remove(self, queue: GroupQueue) -> None:
        self._answering()
        self.queues.pop(queue, None)

    def every(self) -> Iterable[GroupQueue]:
        self._answering()
        return tuple(self.queues)

    def send(self, queue: GroupQueue, entries: Sequence[QueueEntry]) -> tuple[QueueEntry, ...]:
        if self.broken or queue not in self.queues:
            return tuple(entries)
        for entry in entries:
            self.sent += 1
            self.queues[queue].append(Held(entry, f"e{self.sent}"))
        return ()

    def receive(
        self, queue: GroupQueue, *, limit: int, wait_s: int, visibility_timeout_s: int
    ) -> Sequence[ReceivedEntry]:
        assert 1 <= limit <= 10
        assert 0 <= wait_s <= 20
        assert 0 <= visibility_timeout_s <= 43_200
        self._answering()
        found = self._visible(queue, limit)
        if not found:
            self.sleep(wait_s)
            found = self._visible(queue, limit)
        for held in found:
            self.receipts += 1
            held.receipt, held.times = f"r{self.receipts}", held.times + 1
            held.visible_at = self.now() + visibility_timeout_s * 1000
        return [ReceivedEntry(held.entry.message_id, held.entry_id, held.receipt, held.times) for held in found]

    def _visible(self, queue: GroupQueue, limit: int) -> list[Held]:
        """What may be received: of an order that has something in flight, nothing."""
        held, now = self.queues.get(queue, []), self.now()
        busy = {each.entry.group for each in held if queue.ordered and each.visible_at > now}
        return [each for each in held if each.visible_at <= now and each.entry.group not in busy][:limit]

    def delete(self, queue: GroupQueue, receipts: Sequence[str]) -> None:
        if not self.broken and queue in self.queues:
            self.queues[queue] = [held for held in self.queues[queue] if held.receipt not in receipts]

    def hide(self, queue: GroupQueue, seconds: Mapping[str, int]) -> Collection[str]:
        self._answering()
        in_flight = {held.receipt: held for held in self.queues.get(queue, []) if held.visible_at > self.now()}
        for receipt in seconds.keys() & in_flight.keys():
            in_flight[receipt].visible_at = self.now() + seconds[receipt] * 1000
        return seconds.keys() - in_flight.keys()

    def counts(self, queue: GroupQueue) -> QueueCounts:
        self._answering()
        waiting = sum(held.visible_at <= self.now() for held in self.queues.get(queue, []))
        return QueueCounts(waiting, len(self.queues.get(queue, [])) - waiting)

    def _answering(self) -> None:
        if self.broken:
            raise UnavailableError("the groups' queues are away")
