"""Lanes with the same pending messages: pushes made twice, how long the table takes, what removed ones hold.

    python -m tests.benchmarks.herd [LANES_MAX]

Time is virtual and the table a model of DynamoDB (tests/fakes/herd.py), so that the figures are the same on every
machine: milliseconds a call, conflicts of transactions, and the thousand write units a second that one row gives.
"""

from __future__ import annotations

import sys
import time

from tests.benchmarks.harness import print_heading
from tests.fakes.herd import Stampede, removal, stampede

SETTLED_S_MAX = 2.0
"""The lanes wake within half a second; no end waits for another."""
HERDS = ((10, 4), (100, 4), (1_000, 4), (100, 64), (100, 256))
"""Lanes and KiB of body."""
REMOVALS = ((100, 90), (400, 90))
"""Removed lanes, eight of which are worked on at a time, and pending messages of each."""
HELD_S_MAX = 0.01
"""A delivery that is cancelled may hold a function this long; one by one it was 0.04 s."""


def line(body_kib: int, herd: Stampede, took_s: float) -> str:
    """Return one row of the table."""
    lost = herd.counts["conflicts"] + herd.counts["conditions lost"]
    return f"| {herd.lanes:,} | {body_kib} KiB | {lost} | {herd.extra} | {herd.seconds:.1f} s | {took_s:.0f} s |"


def main() -> None:
    """Print the table; exit with a fault when a budget is exceeded."""
    print_heading("lanes", "body", "conflicts", "extra pushes", "all ended after", "played in")
    over = []
    most = int(sys.argv[1]) if len(sys.argv) > 1 else sys.maxsize
    for lanes, body_kib in [herd for herd in HERDS if herd[0] <= most]:
        began = time.perf_counter()
        herd = stampede(lanes, body_kib * 1024)
        print(line(body_kib, herd, time.perf_counter() - began), flush=True)
        if herd.seconds > SETTLED_S_MAX or herd.extra or herd.counts["conflicts"]:
            over.append(f"{lanes} lanes with {body_kib} KiB")
    print()
    print_heading("removed lanes", "pending messages of each", "over after", "functions were held for")
    for lanes, messages in [each for each in REMOVALS if each[0] <= most]:
        came = removal(lanes, messages, at_once=8)
        print(f"| {lanes} | {messages} | {came.seconds:.1f} s | {came.worker_s:.0f} s |", flush=True)
        if came.worker_s > HELD_S_MAX * lanes * messages:
            over.append(f"{lanes} removed lanes")
    raise SystemExit(f"over budget: {', '.join(over)}" if over else 0)


if __name__ == "__main__":
    main()
