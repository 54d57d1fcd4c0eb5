"""`python -m tests.fuzzing --seconds 600`: ask the API for so long, as its document describes it."""

from __future__ import annotations

import argparse
import random
import sys
import time

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.fuzzing.scenario import OPERATIONS, Scenario, told

SCENARIOS = 100
"""Of one seed, by which they are played again."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, help="play this one only")
    given_ = parser.parse_args()
    asked: dict[tuple[str, int], int] = {}
    ends_at = time.monotonic() + given_.seconds
    number = random.randrange(2**32) if given_.seed is None else given_.seed
    while time.monotonic() < ends_at:
        print(f"seed {number}", flush=True)
        play(number, asked)
        if given_.seed is not None:
            break
        number += 1
    print(told(asked))
    missed = set(OPERATIONS) - {name for name, status in asked if status < 300}
    print(f"never answered with success: {', '.join(sorted(missed)) or 'none'}")
    return 0


def play(number: int, asked: dict[tuple[str, int], int]) -> None:
    """Play the scenarios of a seed; what fails is made small, and raised."""

    @seed(number)
    @settings(max_examples=SCENARIOS, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def scenario(data: st.DataObject) -> None:
        Scenario(data, asked).play(steps=12)

    scenario()


if __name__ == "__main__":
    sys.exit(main())
