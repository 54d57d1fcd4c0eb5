"""Lanes at one host that is dead for an hour: attempts made meanwhile, and how late they get their message.

    python -m tests.benchmarks.dead_host [LANES ...]

Time is virtual, and every invocation another process (tests/fakes/dead_host.py).
"""

import sys
import time

from tagcast.pushing.circuit import CIRCUIT_WAIT_S_MAX, PROBE_GAP_S

from tests.benchmarks.harness import print_heading
from tests.fakes.dead_host import HOUR_S, outage

LANES = (5, 100, 1_000)


def main() -> None:
    """Print the table; exit with a fault when more than one probe at a time is made, or a lane waits longer."""
    print_heading(
        "lanes", "attempts of the first round", "attempts in the hour behind it", "last message after", "played in"
    )
    over = []
    for lanes in [int(each) for each in sys.argv[1:]] or LANES:
        began = time.perf_counter()
        came = outage(lanes)
        took_s = time.perf_counter() - began
        attempts = len(came.began_s)
        print(
            f"| {lanes:,} | {came.first_round} | {attempts} | {came.recovered_s:.0f} s | {took_s:.0f} s |", flush=True
        )
        if attempts > HOUR_S / PROBE_GAP_S or came.recovered_s > 2 * CIRCUIT_WAIT_S_MAX or set(came.times) != {1}:
            over.append(f"{lanes} lanes")
    raise SystemExit(f"over budget: {', '.join(over)}" if over else 0)


if __name__ == "__main__":
    main()
