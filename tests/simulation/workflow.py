"""Executions of the redelivery workflow, as functions/redelivery.asl.json has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tagcast import instant

from functions.retry import app as retry_app
from tests.simulation.baton import Worker
from tests.simulation.scheduler import LIFE_S

if TYPE_CHECKING:
    from tests.simulation.history import History

PAUSE_S = 30
Memory = dict[str, Any]


class Executions:
    """Executions by name; a name is used once."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._memories: dict[str, Memory] = {}

    def start(self, topic: str, subscription_id: str, generation: str) -> None:
        """Start an execution unless its name was used."""
        history = self._history
        name = f"{subscription_id}-{generation}"
        if name in self._memories:
            return
        memory: Memory = {
            "topic": topic,
            "subscription_id": subscription_id,
            "generation": generation,
            "rounds": history.turns.choice((0, 0, 0, 1_498)),
        }
        self._memories[name] = memory
        if history.draws("workflow_loss", 0.1):
            history.note("!! execution {} is lost", name)
            return
        history.at(history.now + history.turns.choice((0, 10, 300)), lambda: self._task(memory))

    def repeat_late(self) -> None:
        """Run the task of every execution once more, as a worker that slept for days would."""
        for memory in self._memories.values():
            self._attempt(memory, lambda worker: None)

    def _task(self, memory: Memory) -> None:
        history = self._history
        self._attempt(memory, lambda worker: self._ended(memory, worker))
        if history.draws("task_copy", 0.15):
            delay_ms = history.chance.choice((0, 0, 1_000, 40_000))
            history.at(history.now + delay_ms, lambda: self._attempt(memory, lambda worker: None))

    def _attempt(self, memory: Memory, then: Callable[[Worker], None]) -> None:
        history = self._history

        def body(worker: Worker) -> Any:
            budget_s = LIFE_S["retry"] - retry_app.RESERVE_S
            return history.loop(worker).run(retry_app.handle(memory, history.world(), budget_s))

        label = f"lane {memory['subscription_id']} generation {memory['generation']}"
        worker = history.spawn("retry", label, body, then)
        worker.lane = (memory["subscription_id"], memory["generation"])

    def _ended(self, memory: Memory, worker: Worker) -> None:
        history = self._history
        if worker.fault is not None:
            history.at(history.now + PAUSE_S * 1000, lambda: self._task(memory))
            return
        answer = worker.answer
        if answer["status"] != "wait":
            return
        if history.draws("workflow_loss", 0.05):
            history.note("!! an execution is forgotten")
            return
        following = {name: answer[name] for name in memory}
        late_ms = history.turns.choice((0, 0, 1, 40, 900))
        history.at(instant.parse(answer["wait_until"]) + late_ms, lambda: self._task(following))
