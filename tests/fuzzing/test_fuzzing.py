"""Whatever the API's document lets through, and whatever it does not, is answered as the document says."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzzing.scenario import OPERATIONS, Scenario

STEPS = 12
"""Hypothesis also draws constants of the loaded modules, so workers play different scenarios."""


@pytest.mark.parametrize(("scenarios", "share"), [(50, 2 / 3), pytest.param(200, 4 / 5, marks=pytest.mark.nightly)])
def test_made_up_requests_are_answered_as_the_document_says_and_leave_no_garbage(scenarios: int, share: float) -> None:
    asked: dict[tuple[str, int], int] = {}

    @settings(
        max_examples=scenarios,
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
    assert len(successful) > len(OPERATIONS) * share, (asked, successful)
