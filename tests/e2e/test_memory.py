"""The stack under load for minutes: what it has in memory stays as it was after the warm-up, but for rows."""

import pytest

from tests.benchmarks.memory import measure

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, pytest.mark.timeout(1_200)]
MESSAGES = 2_000
"""Below that nothing is proved: what is to be noticed is some kilobytes for each."""


def test_memory_stays_flat_under_load() -> None:
    grown = measure(minutes=13.0, warm_up_minutes=6.0)
    assert grown.messages >= MESSAGES
    assert grown.is_flat, str(grown)
