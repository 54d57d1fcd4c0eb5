"""The port ``GroupQueues`` in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from tagcast.errors import UnavailableError
from tagcast.ports import GroupQueue


@dataclass
class FakeGroupQueues:
    """Queues by group; *broken* answers nothing."""

    queues: set[GroupQueue] = field(default_factory=set)
    broken: bool = False

    def make(self, queue: GroupQueue) -> None:
        self._answering()
        self.queues.add(queue)

    def remove(self, queue: GroupQueue) -> None:
        self._answering()
        self.queues.discard(queue)

    def _answering(self) -> None:
        if self.broken:
            raise UnavailableError("the groups' queues are away")
