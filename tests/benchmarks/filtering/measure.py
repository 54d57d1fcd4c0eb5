"""Process CPU time of one message, and the lines of the tables."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tests.benchmarks.ratios import report

ROUNDS = 5
SECONDS = 1.0
"""Of processor time that rounds beside a peer take at least: the more rounds, the quieter the quickest."""
CHUNK = 500
"""So many messages are ours, then as many are the peer's: whatever slows a machine slows both."""
M = TypeVar("M")
N = TypeVar("N")


@dataclass(frozen=True)
class Message:
    """What filters read."""

    tags: tuple[str, ...] = ()
    routing_key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class Cost:
    """Microseconds per message: of all together, and the slowest single one."""

    us: float
    worst: float


def cpu_us(work: Callable[[], object]) -> float:
    """Process CPU microseconds of one call."""
    started = time.process_time_ns()
    work()
    return (time.process_time_ns() - started) / 1_000


def cost(match: Callable[[M], object], messages: Sequence[M], rounds: int = ROUNDS) -> Cost:
    """What matching each message costs, the median of rounds."""
    whole = sorted(cpu_us(lambda: [match(message) for message in messages]) for _ in range(rounds))
    return Cost(whole[rounds // 2] / len(messages), _worst(match, messages))


def beside(
    ours: Callable[[M], object], messages: Sequence[M], theirs: Callable[[N], object], others: Sequence[N]
) -> tuple[Cost, float]:
    """What a message costs us and a peer, who take turns after each chunk; the quickest of rounds counts for each."""
    mine: dict[int, float] = defaultdict(lambda: float("inf"))
    peer = mine.copy()
    began = time.process_time()
    rounds = 0
    while rounds < ROUNDS or time.process_time() - began < SECONDS:
        rounds += 1
        for first in range(0, max(len(messages), len(others)), CHUNK):
            chunk, other = messages[first : first + CHUNK], others[first : first + CHUNK]
            mine[first] = min(mine[first], cpu_us(lambda chunk=chunk: [ours(each) for each in chunk]))  # type: ignore[misc]
            peer[first] = min(peer[first], cpu_us(lambda other=other: [theirs(each) for each in other]))  # type: ignore[misc]
    return Cost(sum(mine.values()) / len(messages), _worst(ours, messages)), sum(peer.values()) / len(others)


def _worst(match: Callable[[M], object], messages: Sequence[M]) -> float:
    return max(cpu_us(lambda message=message: match(message)) for message in messages[:1_000])  # type: ignore[misc]


def row(name: str, ours: Cost, peer: str, peer_us: float, wanted: str) -> None:
    ratio = peer_us / ours.us
    print(f"| {name} | {ours.us:,.2f} | {ours.worst:,.0f} | {peer} | {peer_us:,.2f} | {ratio:,.2f} | {wanted} |")


def compared_row(name: str, ours: Cost, peer: str, peer_us: float, goal: float) -> None:
    """Print the line of a peer of the same run, and report the ratio."""
    row(name, ours, peer, peer_us, f">= {goal:g}")
    report(name, peer_us / ours.us, peer, goal)


def head(title: str) -> None:
    print(f"\n{title}\n\n| what | us | worst us | beside | its us | ratio | wanted |")
    print("|---|---|---|---|---|---|---|", flush=True)
