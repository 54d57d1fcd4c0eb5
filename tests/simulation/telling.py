"""What a campaign and a history print for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.simulation.campaign import Tally
from tests.simulation.history import Result

SHRUNK_MAX = 3


def tell(result: Result) -> int:
    """Print a history line by line; return 1 if a promise was broken."""
    print("\n".join(result.trace))
    print(f"{result.steps} steps, {result.messages} messages, {result.pushes} pushes, {dict(result.entries)}")
    print(f"digest {result.digest}")
    print("held" if result.broken is None else f"BROKEN {result.broken}")
    return int(result.broken is not None)


def report(tally: Tally, shrunk: Callable[[int], tuple[Iterable[str], Result]]) -> int:
    """Print the totals, then the first histories that failed, *shrunk*: what is left of each plan, and its history."""
    print("\n".join(tally.lines()))
    for seed in sorted(tally.broken)[:SHRUNK_MAX]:
        print(f"\n--- shrunk: {tally.broken[seed]}")
        left, result = shrunk(seed)
        print("\n".join(left))
        tell(result)
    return int(bool(tally.broken))
