"""Whatever the API's document lets through, and whatever it does not, is answered as the document says."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzzing.scenario import OPERATIONS, Scenario

SCENARIOS, STEPS = 50, 12
"""Hypothesis also draws constants of the loaded modules, so workers play different scenarios."""


def test_made_up_requests_are_answered_as_the_document_says_and_leave_no_garbage() -> None:
    asked: dict[tuple[str, int], int] = {}

    @settings(
        max_examples=SCENARIOS,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def play(data: st.DataObject) -> None:
        Scenario(data, asked).play(STEPS)

    play()

    successful = {name for name, status in asked if status < 300}
    assert len(successful) > len(OPERATIONS) / 3, (asked, successful)
