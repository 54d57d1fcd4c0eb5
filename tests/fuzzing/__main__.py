"""`python -m tests.fuzzing --seconds 600`: ask the API, as its document describes it, and CMQ's beside it."""

import argparse
import random
import sys
import time

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.cmq.forms import ANYTHING, FILTER_TYPES, NATIVE_FILTERS, REQUESTS, play_signed, play_unsigned
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

    @seed(number)
    @settings(max_examples=SCENARIOS, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(REQUESTS, FILTER_TYPES, NATIVE_FILTERS, ANYTHING)
    def forms(
        requests: list[tuple[str, dict[str, str]]], filter_type: str, native: dict[str, object] | None, text: str
    ) -> None:
        play_signed(requests, filter_type, native)
        play_unsigned(text)

    scenario()
    forms()


if __name__ == "__main__":
    sys.exit(main())
