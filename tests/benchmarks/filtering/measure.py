"""Process CPU time of one message, and the lines of the tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

ROUNDS = 5
M = TypeVar("M")


@dataclass(frozen=True)
class Message:
    """What filters read."""

    tags: tuple[str, ...] = ()
    routing_key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class Cost:
    """Microseconds per message: the median of rounds over all, and the slowest single one."""

    median: float
    worst: float


def cpu_us(work: Callable[[], object]) -> float:
    """Process CPU microseconds of one call."""
    started = time.process_time_ns()
    work()
    return (time.process_time_ns() - started) / 1_000


def cost(match: Callable[[M], object], messages: Sequence[M], rounds: int = ROUNDS) -> Cost:
    """What matching each message costs."""
    whole = sorted(cpu_us(lambda: [match(message) for message in messages]) for _ in range(rounds))
    single = [cpu_us(lambda message=message: match(message)) for message in messages[:1_000]]  # type: ignore[misc]
    return Cost(whole[rounds // 2] / len(messages), max(single))


def row(name: str, ours: Cost, peer: str, peer_us: float, wanted: str) -> None:
    """One line: ours beside the peer's time."""
    ratio = peer_us / ours.median
    print(f"| {name} | {ours.median:,.2f} | {ours.worst:,.0f} | {peer} | {peer_us:,.2f} | {ratio:,.2f} | {wanted} |")


def head(title: str) -> None:
    """The beginning of a table."""
    print(f"\n{title}\n\n| what | median us | worst us | beside | its us | ratio | wanted |")
    print("|---|---|---|---|---|---|---|", flush=True)
