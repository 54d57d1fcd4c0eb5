"""What one workflow execution remembers between its rounds, and what it is told to do next."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """The input and memory of one workflow execution."""

    topic: str
    subscription_id: str
    generation: str
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the workflow does next: wait until an instant and come back, or end (None)."""

    task: Task
    wait_until: int | None = None
